"""How kernels are compiled: without Python objects, kept on disk, and without the interpreter's lock.

Compiled kernels are kept beside the sources, or where `NUMBA_CACHE_DIR` says. They are pickles, which run code when
they are read: whoever may write to that folder may run programs as whoever reads it. So it is made private, and one
that isn't is left alone.
"""

import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function over flat arrays with Numba; without the wrapper for callers in C, a tenth of the time."""
    return cast(F, numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True)(function))


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
