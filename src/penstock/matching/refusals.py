"""Subscriptions that a snapshot leaves out because they don't fit its schema, in files of their own.

    <folder>/errors/<name>.json    errors, and the ids of the base's errors that no longer count

A version names two of these files, that of its base and that of its overlay. The file of a base is written once,
however many versions are published on it, and a process reads it once: it may have a hundred thousand errors, and there
may be a version for every micro-batch.
"""

import functools
import uuid
from collections.abc import Iterable
from typing import Any

from penstock.base.array_folders import REMEDY
from penstock.base.checked_files import FileKind
from penstock.base.durable import make_folder, sync_folder, write_file
from penstock.base.errors import FilterError, SnapshotError
from penstock.base.remote_paths import AnyPath
from penstock.matching.compile import Errors

_FOLDER = "errors"
_KIND = FileKind({"errors": list, "replaced": list}, SnapshotError, REMEDY)
_LONGEST = 1000  # characters of a filter that are kept


def write_errors(folder: AnyPath, errors: Errors, replaced: Iterable[int] = ()) -> str | None:
    """Write a file and return its name; None if there is nothing to write."""
    gone = sorted(replaced)
    if not errors and not gone:
        return None
    name = uuid.uuid4().hex
    content = {"errors": [_to_list(sid, error) for sid, error in errors], "replaced": gone}
    path = _path(folder, name)
    try:
        make_folder(path.parent)
        write_file(path, _KIND.to_text(content))  # not atomic: nobody knows the name yet
        sync_folder(path.parent)
    except OSError as error:
        raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error
    return name


def read_errors(folder: AnyPath, base: str | None, overlay: str | None) -> Errors:
    """The errors of a version: of its base, unless the overlay has replaced them, and of its overlay."""
    of_base, _ = _read(folder, base)
    of_overlay, replaced = _read(folder, overlay)
    if not replaced:
        return [*of_base, *of_overlay]
    return [*(e for e in of_base if e[0] not in replaced), *of_overlay]


def delete_errors(folder: AnyPath, names: Iterable[str]) -> None:
    """Delete files that no version needs any more."""
    for name in names:
        _path(folder, name).unlink(missing_ok=True)


def _read(folder: AnyPath, name: str | None) -> tuple[Errors, frozenset[int]]:
    return ([], frozenset()) if name is None else _read_file(_path(folder, name))


@functools.lru_cache(maxsize=4)
def _read_file(path: AnyPath) -> tuple[Errors, frozenset[int]]:
    try:
        content = _KIND.read(path)
        return [_from_list(*e) for e in content["errors"]], frozenset(map(int, content["replaced"]))
    except FileNotFoundError:
        raise _KIND.damage(path, "it is missing") from None
    except (TypeError, ValueError) as error:
        raise _KIND.damage(path, f"it has no errors of filters ({error})") from error


def _path(folder: AnyPath, name: str) -> AnyPath:
    return folder / _FOLDER / f"{name}.json"


def _to_list(sid: int, error: FilterError) -> list[Any]:
    e = error
    return [sid, e.text[:_LONGEST], e.reason, e.start, e.end, e.expected, e.found, e.hint]


def _from_list(
    sid: int,
    text: str,
    reason: str,
    start: int | None,
    end: int | None,
    *more: str | None,
) -> tuple[int, FilterError]:
    expected, found, hint = more
    return sid, FilterError(text, reason, start, end, expected=expected, found=found, hint=hint)
