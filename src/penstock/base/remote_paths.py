"""Paths in an object store or HDFS: what we need of `pathlib.Path`, through `pyarrow.fs`.

    s3://bucket/folder                                  S3, and what speaks its protocol; s3a:// means the same
    gs://bucket/folder                                  Google Cloud Storage
    abfss://container@account.dfs.core.windows.net/…    Azure Data Lake Storage
    hdfs://host:8020/folder                             HDFS

What follows a `?` says how the file system is reached (`s3://bucket/folder?endpoint_override=…&scheme=http`), as
`pyarrow.fs.FileSystem.from_uri` reads it. Credentials come from the environment of each process.

A file is there whole or not at all: an object store shows it when its upload is complete, and HDFS has it written
under another name first. A file without content isn't there yet: Azure shows one while it is uploaded. None of our
files is empty.
"""

import contextlib
import functools
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.base.errors import PipelineError

SCHEMES = ("s3", "gs", "abfss", "hdfs")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "viewfs": "hdfs"}
_CHUNK = 8 << 20  # bytes that are copied at a time
_RENAMES = ("hdfs", "local")  # kinds of file systems that show a file while it is written
_creating = threading.Lock()


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A file or folder that only a URI names. Its methods do what those of `Path` do.

    >>> found = RemotePath.of("s3a://bucket/folder?region=eu-west-1") / "versions" / "7.json"
    >>> str(found), found.stem, found.parent.name
    ('s3://bucket/folder/versions/7.json?region=eu-west-1', '7', 'versions')
    """

    uri: str
    options: str = ""

    @staticmethod
    def of(text: str, what: str = "folder") -> "RemotePath":
        """PipelineError if nothing can be kept there; `what` is what a user calls it."""
        uri, _, options = text.partition("?")
        scheme, _, rest = uri.partition("://")
        if _SAME.get(scheme, scheme) not in SCHEMES:
            known = ", ".join(f"{one}://" for one in SCHEMES)
            raise PipelineError(
                f"{what} {text}: Penstock can't keep files there. Give a folder of a mounted file system, or a URI "
                f"that begins with {known}"
            )
        scheme = _SAME[scheme] if scheme in ("s3a", "s3n", "gcs") else scheme
        return RemotePath(f"{scheme}://{rest.rstrip('/')}", options)

    def __str__(self) -> str:
        return f"{self.uri}?{self.options}" if self.options else self.uri

    def __truediv__(self, name: str) -> "RemotePath":
        return replace(self, uri=f"{self.uri}/{name}")

    def __lt__(self, other: "RemotePath") -> bool:
        return self.uri < other.uri

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> "RemotePath":
        return replace(self, uri=self.uri.rpartition("/")[0])

    @property
    def for_spark(self) -> str:
        """The URI by which Spark knows it. How it is reached is in Spark's settings (`spark.hadoop.fs.s3a.…`)."""
        return f"s3a{self.uri.removeprefix('s3')}" if self.uri.startswith("s3:") else self.uri

    def absolute(self) -> "RemotePath":
        return self

    # --- reading --------------------------------------------------------------------------------

    def exists(self) -> bool:
        return _is_there(self._info())

    def is_dir(self) -> bool:
        return bool(self._info().type == _fs().FileType.Directory)

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """What is in this folder and has such a name."""
        for found in self._inside():
            if _is_there(found) and fnmatchcase(found.base_name, pattern):
                yield self / found.base_name

    def iterdir(self) -> Iterator["RemotePath"]:
        return self.glob("*")

    def read_bytes(self) -> bytes:
        system, path = self._place()
        with system.open_input_stream(path) as stream:
            content: bytes = stream.read()
        if not content:
            raise FileNotFoundError(f"{self} is still being written")
        return content

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def download(self, out: Any) -> None:
        """Write the content to an open file."""
        system, path = self._place()
        with system.open_input_stream(path) as stream:
            shutil.copyfileobj(stream, out, _CHUNK)

    def size(self) -> int:
        """The size in bytes; 0 if there is no such file."""
        return int(self._info().size or 0)

    def age(self) -> float:
        """Seconds since a file, or the newest file of a folder, was written; 0 if it is gone."""
        found = self._info()
        files = self._inside() if found.type == _fs().FileType.Directory else [found]
        times = [one.mtime_ns for one in files if one.mtime_ns]
        return time.time() - max(times) / 1e9 if times else 0.0

    # --- writing --------------------------------------------------------------------------------

    def write_bytes(self, content: bytes) -> None:
        """Write a file, or replace it."""
        with self._written() as out:
            out.write(content)

    def create_bytes(self, content: bytes) -> bool:
        """Write a file unless it is there; whether it was written.

        Within this process one wins. Of two processes both may: `pyarrow.fs` has no conditional writes.
        """
        with _creating:
            if self.exists():
                return False
            self.write_bytes(content)
        return self.read_bytes() == content

    def upload(self, file: Path) -> None:
        """Write the content of a file on this machine."""
        with self._written() as out, file.open("rb") as content:
            shutil.copyfileobj(content, out, _CHUNK)

    def unlink(self, missing_ok: bool = False) -> None:
        system, path = self._place()
        try:
            system.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def delete_folder(self) -> None:
        """Delete a folder with all that is in it, if it is there."""
        system, path = self._place()
        with contextlib.suppress(FileNotFoundError):
            system.delete_dir(path)

    @contextlib.contextmanager
    def _written(self) -> Iterator[Any]:
        system, path = self._place()
        if system.type_name not in _RENAMES:
            # Closing a stream makes the file. If the writer fails, the stream is left open, so that no file is made.
            out = system.open_output_stream(path)
            yield out
            out.close()
            return
        draft = self.parent / f".draft-{self.name}-{uuid.uuid4().hex[:8]}"
        _, draft_path = draft._place()
        system.create_dir(self.parent._place()[1], recursive=True)
        try:
            with system.open_output_stream(draft_path) as out:
                yield out
            if self._info().type == _fs().FileType.File:
                system.delete_file(path)
            system.move(draft_path, path)
        finally:
            draft.unlink(missing_ok=True)

    # --- inside ---------------------------------------------------------------------------------

    def _place(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        scheme, _, rest = self.uri.partition("://")
        authority, _, path = rest.partition("/")
        system, root = _file_system(scheme, authority, self.options)
        return system, (root + unquote(path)).rstrip("/")

    def _info(self) -> Any:
        system, path = self._place()
        return system.get_file_info(path)

    def _inside(self) -> list[Any]:
        system, path = self._place()
        found: list[Any] = system.get_file_info(_fs().FileSelector(path, allow_not_found=True))
        return found


AnyPath = Path | RemotePath


def uri_for_spark(path: AnyPath) -> str:
    """The URI by which Spark knows a path."""
    return path.for_spark if isinstance(path, RemotePath) else str(path)


def paths_in(folder: AnyPath, pattern: str) -> list[AnyPath]:
    """What is in a folder and has such a name, in order; nothing if there is no folder."""
    return sorted([*folder.glob(pattern)], key=str)


def _is_there(info: Any) -> bool:
    kinds = _fs().FileType
    return bool(info.type == kinds.Directory or (info.type == kinds.File and info.size != 0))


@functools.lru_cache(maxsize=32)
def _file_system(scheme: str, authority: str, options: str) -> tuple[Any, str]:
    """The file system of a URI, and what the paths of its files begin with."""
    some = f"{scheme}://{authority}/x" + (f"?{options}" if options else "")
    try:
        system, path = _fs().FileSystem.from_uri(some)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{scheme}://{authority} can't be opened: {error}") from error
    return system, path.removesuffix("x")


def _fs() -> Any:
    from pyarrow import fs  # loads every client library: 0.1 s, which most processes never need

    return fs
