"""The decisions about paces that a query writes down, in its part of the checkpoint folder.

    penstock/paces/known/12.json          the paces of subscriptions as of change 12 of the registry
    penstock/paces/windows/17.json        what micro-batch 17 let through, and the windows after it
    penstock/paces/gathered/17-….arrow    what micro-batch 17 gathered for digests; the name has the checksum

Each file is written once, whole or not at all, before the sink gets anything of its micro-batch. A replay reads it, and
lets the same through. So what goes out is a function of what is published and of what was written down. A micro-batch
in which no subscription has a pace writes nothing.
"""

import io
import zlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import pyarrow as pa

from penstock.base.checked_files import FileKind
from penstock.base.durable import create_file, make_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.delivery.pacing import Window
from penstock.registry.paces import Pace

_REMEDY = (
    "restore the file, or start anew with another checkpoint folder and another folder for the sink"
)
_KNOWN = FileKind({"paces": dict}, PipelineError, _REMEDY)
_WINDOWS = FileKind(
    {"batch": int, "through": dict, "windows": dict, "held": int, "gathered": int},
    PipelineError,
    _REMEDY,
)
_KEPT = 3  # files of windows that are kept, besides that of the micro-batch that may be replayed


@dataclass(frozen=True)
class PacedBatch:
    """What became of the paced subscriptions of a micro-batch.

    `through`: the ids of notifications that went out, by subscription. `windows`: the windows after the micro-batch.
    `held` and `gathered` count notifications.
    """

    through: Mapping[int, tuple[str, ...]]
    windows: Mapping[int, Window]
    held: int
    gathered: int


@dataclass(frozen=True)
class PaceLog:
    """The files of one query."""

    checkpoint: str

    @property
    def _folder(self) -> AnyPath:
        return path_of(self.checkpoint) / "penstock" / "paces"

    # --- paces ----------------------------------------------------------------------------------

    def keep_paces(self, sequence: int, paces: Mapping[int, Pace]) -> None:
        """Note the paces that hold as of a change of the registry. What was noted first stays."""
        path = self._folder / "known" / f"{sequence}.json"
        make_folder(path.parent)
        said = {str(sid): [pace.most, pace.interval] for sid, pace in sorted(paces.items())}
        create_file(path, _KNOWN.to_text({"paces": said}))

    def find_paces(self, sequence: int) -> dict[int, Pace]:
        """The paces that were noted for a change; empty if no subscription had one."""
        try:
            found = _KNOWN.read(self._folder / "known" / f"{sequence}.json")
        except FileNotFoundError:
            return {}
        return {int(sid): Pace(*said) for sid, said in found["paces"].items()}

    # --- micro-batches --------------------------------------------------------------------------

    def keep_batch(self, batch: int, paced: PacedBatch) -> None:
        """Write down what became of a micro-batch."""
        path = self._folder / "windows" / f"{batch}.json"
        make_folder(path.parent)
        text = _WINDOWS.to_text(
            {
                "batch": batch,
                "through": {str(sid): list(ids) for sid, ids in paced.through.items()},
                "windows": {str(sid): astuple(one) for sid, one in paced.windows.items()},
                "held": paced.held,
                "gathered": paced.gathered,
            }
        )
        create_file(path, text)

    def find_batch(self, batch: int) -> PacedBatch | None:
        """What became of a micro-batch, if that was written down."""
        path = self._folder / "windows" / f"{batch}.json"
        try:
            found = _WINDOWS.read(path)
        except FileNotFoundError:
            return None
        if found["batch"] != batch:
            raise _WINDOWS.damage(path, f"it is that of micro-batch {found['batch']}")
        return PacedBatch(
            {int(sid): tuple(ids) for sid, ids in found["through"].items()},
            {int(sid): Window(*one) for sid, one in found["windows"].items()},
            found["held"],
            found["gathered"],
        )

    def windows_before(self, batch: int) -> Mapping[int, Window]:
        """The windows with which a micro-batch begins."""
        earlier = [number for number in self._numbers("windows") if number < batch]
        found = self.find_batch(max(earlier)) if earlier else None
        return {} if found is None else found.windows

    def _numbers(self, folder: str) -> list[int]:
        paths = paths_in(self._folder / folder, "*.json")
        return sorted(int(path.stem) for path in paths if path.stem.isdigit())

    def prune(self, batch: int, sequence: int) -> None:
        """Delete what no micro-batch from this one on needs. These are pinned to changes from `sequence` on."""
        earlier = [number for number in self._numbers("windows") if number < batch]
        for number in earlier[:-_KEPT]:
            (self._folder / "windows" / f"{number}.json").unlink(missing_ok=True)
        for number in self._numbers("known"):
            if number < sequence:
                (self._folder / "known" / f"{number}.json").unlink(missing_ok=True)

    # --- digests --------------------------------------------------------------------------------

    def keep_gathered(self, batch: int, gathered: pa.Table) -> None:
        """Write down what a micro-batch has gathered for digests. What was written first stays."""
        if batch in self.gathered_batches():
            return
        out = io.BytesIO()
        with pa.ipc.new_file(out, gathered.schema) as file:
            file.write_table(gathered)
        data = out.getvalue()
        folder = self._folder / "gathered"
        make_folder(folder)
        create_file(folder / f"{batch}-{zlib.crc32(data):08x}.arrow", data)

    def gathered_batches(self) -> dict[int, AnyPath]:
        """The micro-batches that have gathered something, in order."""
        paths = paths_in(self._folder / "gathered", "*-*.arrow")
        return dict(sorted((int(path.stem.partition("-")[0]), path) for path in paths))

    def read_gathered(self, path: AnyPath) -> pa.Table:
        """The notifications that a micro-batch has gathered."""
        data = path.read_bytes()
        if path.stem.partition("-")[2] != f"{zlib.crc32(data):08x}":
            raise PipelineError(f"{path} is damaged: its checksum is wrong. {_REMEDY.capitalize()}")
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
