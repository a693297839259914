"""What each micro-batch was matched with, written down before it runs.

    <checkpoint>/
      metadata                          Spark's own: the id of the query, which notifications and sinks carry too
      offsets/ commits/ sources/ …      Spark's own: which events are in which micro-batch
      penstock/batches/17.json          the pin of micro-batch 17: query, snapshot, its sequence number, time

Spark replays a micro-batch that it hasn't committed with the same events, but it knows nothing of subscriptions. A pin
makes the other half repeatable: a replay reads it, and so matches the same events with the same snapshot at the same
`now`, and yields the same notifications. A pin is made after Spark has logged the offsets of its batch and before the
batch does anything. It is written to a temporary file, synced, and given its name, so that it is there whole or not at
all. In an object store the upload ensures that.

Pins stay for a while after their batch is committed, as a record of what was matched with what.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.checked_files import FileKind
from penstock.base.durable import create_file, make_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.matching import SnapshotRef

KEPT = 1000
"""Pins kept: ten times the batches whose logs Spark keeps."""

_PIN = FileKind(
    {"query": str, "batch": int, "snapshot": dict, "now": int},
    PipelineError,
    "its micro-batch can't be replayed as it was: restore the file, or start anew with another checkpoint folder and "
    "another folder for the sink",
)


@dataclass(frozen=True, slots=True)
class Pin:
    """What a micro-batch is matched with: a snapshot (all changes up to its sequence number) and a time (µs, UTC)."""

    query: str
    batch: int
    snapshot: SnapshotRef
    now: int

    def to_json(self) -> str:
        """The pin as the text of a checked file (`checked_files`), in one line."""
        return _PIN.to_text(asdict(self))

    @staticmethod
    def from_json(text: str, place: AnyPath | str) -> "Pin":
        """Read what `to_json` wrote. Raises a PipelineError that names the place if it is anything else."""
        value = _PIN.from_text(text, place)
        try:
            snapshot = SnapshotRef.from_dict(value["snapshot"])
        except (KeyError, TypeError, ValueError) as error:
            raise _PIN.damage(place, f"it names no snapshot ({error!r})") from error
        return Pin(value["query"], value["batch"], snapshot, value["now"])


class Pins:
    """The pins of one pipeline, in its checkpoint folder. Only one process writes them at a time: the one that runs
    the micro-batches."""

    def __init__(self, checkpoint: str | Path) -> None:
        self._checkpoint = checkpoint
        self.folder = path_of(checkpoint, "checkpoint") / "penstock" / "batches"

    def find_or_make(self, batch: int, make: Callable[[], Pin]) -> tuple[Pin, bool]:
        """The pin of a micro-batch, and whether it was there already, as it is in a replay."""
        if (found := self.find(batch)) is not None:
            self._check_owner(found)
            return found, True
        make_folder(self.folder)
        create_file(self._path(batch), make().to_json())
        pin = self.find(batch)
        assert pin is not None, "just written, by us or by another driver that was faster"
        return pin, False

    def find(self, batch: int) -> Pin | None:
        """The pin of a micro-batch, if it has one."""
        path = self._path(batch)
        try:
            found = Pin.from_json(path.read_bytes().decode(errors="replace"), path)
        except FileNotFoundError:
            return None
        if found.batch != batch:
            raise _PIN.damage(path, f"it is the pin of micro-batch {found.batch}")
        return found

    def batches(self) -> list[int]:
        """The micro-batches that have a pin, in order."""
        if not self.folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit())

    def prune(self, committed: int, kept: int = KEPT) -> None:
        """Delete the pins of batches up to `committed`, except the last `kept` of them."""
        for batch in self.batches():
            if batch > committed - kept:
                break
            self._path(batch).unlink(missing_ok=True)

    def _check_owner(self, pin: Pin) -> None:
        """Raises PipelineError for the pin of another query: batch numbers start at 0 again if somebody clears Spark's
        part of the folder and leaves ours."""
        if pin.query != (owner := query_id(self._checkpoint)):
            raise PipelineError(
                f"{self._path(pin.batch)} is of another query ({pin.query}, this is {owner}): part of the checkpoint "
                "folder was removed. Start anew with an empty one."
            )

    def _path(self, batch: int) -> AnyPath:
        return self.folder / f"{batch}.json"


def query_id(checkpoint: str | Path) -> str:
    """The id of the query that owns a checkpoint folder: given by Spark when it first starts, kept for ever."""
    path = path_of(checkpoint) / "metadata"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} doesn't tell the id of the query: {error!r}") from error
