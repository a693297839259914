"""Numbered versions in a folder of snapshots, and the owner of the folder.

    <folder>/owner.json                 whose subscriptions these are, and what else is fixed for the folder
    <folder>/versions/0000000012.json   a version: what it consists of

Both are documents (`checked_files`). A version is linked under its number, whole and synced: of two publishers at the
same time one gets the number, and the other learns that it didn't. Nobody ever sees half of a version. In an object
store that holds within a process only: of two processes that publish at the same moment both may believe that they got
the number, and the later version stays.
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.checked_files import FieldType, FileKind
from penstock.base.durable import create_file, make_folder, replace_file
from penstock.base.errors import SnapshotError
from penstock.base.remote_paths import AnyPath

_SOURCE = FileKind(
    {"identity": str},
    SnapshotError,
    "delete this file if the folder is that of your registry: it is written again",
)
_DIGITS = 10


class VersionFiles:
    """The versions of one folder; `fields` are what each of them must have.

    >>> import tempfile; folder = tempfile.TemporaryDirectory()
    >>> from penstock.base.locations import path_of
    >>> versions = VersionFiles(path_of(folder.name), {"sequence": int}, "publish it again")
    >>> versions.write(1, {"sequence": 5}), versions.write(1, {"sequence": 6})
    (True, False)
    >>> versions.numbers(), versions.read(1)["sequence"]
    ([1], 5)
    >>> folder.cleanup()
    """

    def __init__(self, folder: AnyPath, fields: Mapping[str, FieldType], remedy: str) -> None:
        self.folder = folder
        self._kind = FileKind(fields, SnapshotError, remedy)

    def numbers(self) -> list[int]:
        """Those that there are, ascending. Files with other names aren't ours."""
        names = [path.stem for path in self._path(0).parent.glob("*.json")]
        return sorted(int(n) for n in names if len(n) == _DIGITS and n.isascii() and n.isdigit())

    def read(self, number: int) -> dict[str, Any]:
        """What a version consists of. SnapshotError if it isn't there, or isn't whole."""
        path = self._path(number)
        try:
            return self._kind.read(path)
        except FileNotFoundError:
            raise SnapshotError(
                f"{path} is missing: no snapshot of Penstock, or not visible from this machine"
            ) from None

    def write(self, number: int, content: Mapping[str, Any]) -> bool:
        """Publish a version; False if there is one of this number."""
        return _create(self._path(number), self._kind, content)

    def replace(self, number: int, content: Mapping[str, Any]) -> None:
        """Write a damaged version again. It must mean the same as before."""
        replace_file(self._path(number), self._kind.to_text(content))

    def delete(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)

    def claim(self, identity: str, **mine: Any) -> dict[str, Any]:
        """Write down whose folder this is, unless that is known; what was written. SnapshotError if it is another's."""
        path = self.folder / "owner.json"
        if not path.exists():
            _create(path, _SOURCE, {"identity": identity} | mine)
        try:
            claimed = _SOURCE.read(path)
        except FileNotFoundError:
            raise SnapshotError(f"{path} was removed meanwhile") from None
        if claimed["identity"] != identity:
            raise SnapshotError(
                f"{self.folder} has the snapshots of another registry ({claimed['identity']}): "
                "use a folder of its own for each"
            )
        return claimed

    def _path(self, number: int) -> AnyPath:
        return self.folder / "versions" / f"{number:0{_DIGITS}d}.json"


def _create(path: AnyPath, kind: FileKind, content: Mapping[str, Any]) -> bool:
    """Put a document under a name that nobody has taken; False if somebody has."""
    try:
        make_folder(path.parent)
        return create_file(path, kind.to_text(content))
    except OSError as error:
        raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error
