"""Where folders are: in a mounted file system, or somewhere that only a URI names."""

from pathlib import Path

from penstock.base.errors import PipelineError
from penstock.base.remote_paths import AnyPath, RemotePath


def path_of(path: str | Path | RemotePath, what: str = "folder") -> AnyPath:
    """The path of a folder or file, wherever it is: from a path, a `file:` URI, or one of an object store or of HDFS.

    `what` is its name in messages.

    >>> path_of("file:///data/in"), path_of("s3://bucket/in")
    (PosixPath('/data/in'), RemotePath(uri='s3://bucket/in', options=''))
    """
    if isinstance(path, RemotePath) or is_remote(path):
        return RemotePath.of(str(path), what)
    return local_path(path, what)


def local_path(path: str | Path, what: str) -> Path:
    """The path of a folder in a mounted file system, from a path or a `file:` URI.

    >>> local_path("file:///data/in", "source")
    PosixPath('/data/in')
    """
    text = str(path)
    if is_remote(text):
        raise PipelineError(
            f"{what} {text}: Penstock keeps its own files there, so it must be a folder of a mounted file system "
            "(local disk, NFS …), not a URI"
        )
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    return Path(text)


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URI of an object store or of HDFS."""
    return "://" in str(path) and not str(path).startswith("file:")
