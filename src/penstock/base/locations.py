"""Where folders are: in a mounted file system, or somewhere that only a URI names."""

from pathlib import Path

from penstock.base.errors import PipelineError


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
