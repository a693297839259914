"""How kernels are compiled: without Python objects, kept on disk, and without the interpreter's lock.

Compiled kernels are kept beside the sources, or where `NUMBA_CACHE_DIR` says. They are pickles, which run code when
they are read: whoever may write to that folder may run programs as whoever reads it. So it is made private, and one
that isn't is left alone.

Several processes compile at once, as Spark's workers do when a pipeline starts for the first time. Numba numbers the
files of a kernel's signatures by an index that it has read before. Two processes that compile two signatures take the
same number for both, and the index leads to code for other types: a crash, in every process from then on. So here a
file has a name that follows from its signature (`_CacheFile`). What is lost at worst is a line of the index, and the
signature is compiled again.
"""

import hashlib
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import IndexDataCacheFile

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function over flat arrays with Numba; without the wrapper for callers in C, a tenth of the time."""
    made = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True)(function)
    cache: Any = getattr(made, "_cache", None)
    if hasattr(cache, "_cache_file"):  # not if kernels can't be kept, or run as Python
        cache._cache_file.__class__ = _CacheFile
    return cast(F, made)


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """The compiled signatures of one kernel, which any number of processes may add to at once."""

    def save(self, key: object, data: object) -> None:
        """Keep a signature's code: first the code, then a line of the index that leads to it."""
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        name = self._index_name.removesuffix(".nbi") + f".{digest}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


def problem_of_cache(folder: Path) -> str | None:
    """Why a folder of compiled kernels can't be trusted; None if it can. One that isn't there is made, for us alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        return f"can't be made: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written to by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _check_cache() -> None:
    """Use no cache that others can write to; kernels are then kept where they are without the setting."""
    folder = numba.config.CACHE_DIR
    if folder and (problem := problem_of_cache(Path(folder))) is not None:
        warnings.warn(
            f"NUMBA_CACHE_DIR={folder} {problem}: it isn't used, because what is read from there is run. Give a folder "
            "that only this user may write to (chmod 700)",
            RuntimeWarning,
            stacklevel=2,
        )
        numba.config.CACHE_DIR = ""


_check_cache()
