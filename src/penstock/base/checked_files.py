"""Files that are as they were written, or are refused: everything in them is covered by a checksum.

A *document* is a JSON object in a file, with two fields of its own: its `format`, and the `checksum` of all the rest.
Whoever reads it says which fields there must be, and of which types. What comes back is what was written, or there is
an error that names the file, what is wrong with it, and what to do.
"""

import json
import types
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.remote_paths import AnyPath

FORMAT = 3
"""The format of all files that Penstock writes and reads again. Formats before 3 have no checksums and are refused."""

FieldType = type | types.UnionType


@dataclass(frozen=True)
class FileKind:
    """A kind of document: its fields with their types, the error that is raised, and what a user can do about it."""

    fields: Mapping[str, FieldType]
    error: type[PenstockError]
    remedy: str

    def to_text(self, content: Mapping[str, Any]) -> str:
        """A document of this kind, in one line.

        >>> from penstock.base.errors import SnapshotError
        >>> kind = FileKind({"sequence": int}, SnapshotError, "publish it again")
        >>> kind.to_text({"sequence": 7})
        '{"format": 3, "checksum": 2002958459, "sequence": 7}\\n'
        """
        head = {"format": FORMAT, "checksum": checksum_of(content)}
        return json.dumps(head | dict(content)) + "\n"

    def read(self, path: AnyPath) -> dict[str, Any]:
        """The content of a document. `FileNotFoundError` if there is none."""
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise self.damage(path, "it isn't text") from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.error(f"{path} can't be read: {error.strerror or error}") from error
        return self.from_text(text, path)

    def from_text(self, text: str, place: AnyPath | str) -> dict[str, Any]:
        """The content of a document that stands at a place."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damage(place, "it isn't JSON") from error
        if not isinstance(found, dict) or "format" not in found:
            raise self.damage(place, "it has no format")
        if (format_ := found.pop("format")) != FORMAT:
            raise self.error(
                f"{place} has format {format_!r}, this Penstock reads format {FORMAT}: {self.remedy}"
            )
        if found.pop("checksum", None) != checksum_of(found):
            raise self.damage(place, "its checksum is wrong")
        for name, type_ in self.fields.items():
            value = found.get(name)
            if not isinstance(value, type_) or (isinstance(value, bool) and type_ is int):
                raise self.damage(place, f"{name!r} is {type(value).__name__}")
        return found

    def damage(self, place: AnyPath | str, reason: str) -> PenstockError:
        """The error that says what is wrong with the file, and what to do."""
        return self.error(
            f"{place} is damaged: {reason}. {self.remedy[0].upper()}{self.remedy[1:]}"
        )


def checksum_of(content: Mapping[str, Any]) -> int:
    """A checksum of the content: the same whatever the order of its keys."""
    return zlib.crc32(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
