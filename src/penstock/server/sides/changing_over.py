"""From Spark to live matching and back, when a service is started with the other: nothing lost, nothing twice.

    spark ─▶ live    the rows of the inbox go into the log, as before; Spark matches everything in it, and ends; from
                     then on the live matcher takes rows from the inbox
    live ─▶ spark    the feeds have the position up to which the live matcher has matched: rows up to it leave the
                     inbox, the rest goes into the log

A file in the data folder says which side had the records last. It is written when a change is complete, so a change
that was interrupted is done again from its beginning.
"""

from pathlib import Path

from penstock.base.durable import replace_file
from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import Mover

_TOGETHER = 8 << 20  # bytes that a mover is given at once
_PATIENCE = 60.0  # seconds that the inbox has to delete released rows


def read_side(folder: Path) -> str | None:
    """Which side had the records last; None in a new folder."""
    try:
        return (folder / "matched-by").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def note_side(folder: Path, side: str) -> None:
    """Note that this side has the records from now on."""
    if read_side(folder) != side:
        replace_file(folder / "matched-by", side + "\n")


def move_all(inbox: Inbox, mover: Mover) -> None:
    """Give a mover all rows that wait in the inbox, and release them."""
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
    """Release everything up to a position, and wait until it is deleted from the disk."""
    inbox.release(position)
    if position and not inbox.wait_released(position, _PATIENCE):
        raise TimeoutError(f"the inbox has not let go of position {position} in {_PATIENCE:g} s")
