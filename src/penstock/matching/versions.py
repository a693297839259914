"""Numbered versions in a folder of snapshots, and whose they are.

    <folder>/source.json                whose subscriptions these are, and what else a folder has one of
    <folder>/versions/0000000012.json   a version: what it consists of

A version is linked under its number, whole and synced: of two who publish at the same time one gets the number, the
other is told. Nobody ever sees a half-written one.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import SnapshotError
from penstock.matching.folders import FORMAT, read_manifest, sync_folder, write_file


class VersionFiles:
    """The versions of one folder.

    >>> import tempfile; folder = tempfile.TemporaryDirectory()
    >>> versions = VersionFiles(Path(folder.name))
    >>> versions.write(1, {"sequence": 5}), versions.write(1, {"sequence": 6})
    (True, False)
    >>> versions.numbers(), versions.read(1)["sequence"]
    ([1], 5)
    >>> folder.cleanup()
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """Those that there are, ascending."""
        return sorted(int(path.stem) for path in self._path(0).parent.glob("[0-9]*.json"))

    def read(self, number: int) -> dict[str, Any]:
        """What a version consists of. SnapshotError if it isn't there, or isn't whole."""
        return read_manifest(self._path(number))

    def write(self, number: int, content: Mapping[str, Any]) -> bool:
        """Publish a version; False if there is one of this number."""
        return _link(self._path(number), content)

    def delete(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)

    def claim(self, identity: str, **mine: Any) -> dict[str, Any]:
        """Say whose this folder is, unless it has been said; what was said first. SnapshotError if it is another's."""
        path = self.folder / "source.json"
        if not path.exists():
            _link(path, {"identity": identity} | mine)
        claimed = read_manifest(path)
        if claimed["identity"] != identity:
            raise SnapshotError(
                f"{self.folder} has the snapshots of another registry ({claimed['identity']}): "
                "use a folder of its own for each"
            )
        return claimed

    def _path(self, number: int) -> Path:
        return self.folder / "versions" / f"{number:010d}.json"


def _link(path: Path, content: Mapping[str, Any]) -> bool:
    """Put a JSON file under a name that nobody has taken; False if somebody has."""
    draft = path.parent / f".draft-{uuid.uuid4().hex}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(draft, json.dumps({"format": FORMAT} | dict(content)))
        os.link(draft, path)
        sync_folder(path.parent)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
