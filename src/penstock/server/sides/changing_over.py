"""From Spark to live matching and back, when a service is started with the other: nothing lost, nothing twice.

    spark ─▶ live    what is accepted goes into the log, as before; Spark matches all that is there, and ends; from
                     here on the live matcher takes what is accepted
    live ─▶ spark    what the live matcher has matched stands in the feeds, with its position: that leaves the inbox,
                     the rest goes into the log

Which of the two had the records last stands in a file of the data folder, written when the change is complete: whatever
interrupts one, it is done again from its beginning.
"""

from pathlib import Path

from penstock.base.durable import replace_file
from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import Mover

_TOGETHER = 8 << 20  # bytes that a mover is given at once
_PATIENCE = 60.0  # seconds for the inbox to let go of what was taken


def read_side(folder: Path) -> str | None:
    """Which side had the records last; None in a new folder."""
    try:
        return (folder / "matched-by").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def note_side(folder: Path, side: str) -> None:
    """From now on this side has the records."""
    if read_side(folder) != side:
        replace_file(folder / "matched-by", side + "\n")


def move_all(inbox: Inbox, mover: Mover) -> None:
    """Give a mover all that waits in the inbox."""
    waiting = inbox.waiting_rows()
    position = 0
    try:
        while rows := waiting.after(position, _TOGETHER):
            mover.take(rows)
            position = rows[-1].last
    finally:
        waiting.close()
    let_go(inbox, position)


def let_go(inbox: Inbox, position: int) -> None:
    """Release everything up to a position, and wait until it has left the disk."""
    inbox.release(position)
    if position and not inbox.wait_released(position, _PATIENCE):
        raise TimeoutError(f"the inbox has not let go of position {position} in {_PATIENCE:g} s")
