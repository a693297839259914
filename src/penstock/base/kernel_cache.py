"""Where compiled kernels are kept, so that each is compiled once and not by every process.

Compiled kernels are kept as pickles, which run code when they are read: whoever may write to their folder may run
programs as the user who reads it. So the folder must be private, and one that isn't is not used. The first of these
folders that can be written to is used:

1. `NUMBA_CACHE_DIR`, if it is set;
2. `__pycache__` beside the sources;
3. the user's folder for caches (`XDG_CACHE_HOME`, or `.cache` in the home folder);
4. a folder of this user in the one for temporary files: containers often have neither of the others.

If none of them can be written to, every process compiles its kernels, and one line says so. Kernels that lie beside the
sources are read unless `NUMBA_CACHE_DIR` says otherwise: an image whose kernels were compiled when it was made
(`penstock warm-up`) needs no folder that can be written to.

Several processes compile at once, as Spark's workers do when a pipeline starts for the first time. Numba numbers the
files of a kernel's signatures by an index that it has read before. Two processes that compile two signatures take the
same number for both, and the index leads to code for other types: a crash, in every process from then on. So here a
file has a name that follows from its signature (`_CacheFile`). At worst a line of the index is lost, and that signature
is compiled again.
"""

import functools
import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)

_BESIDE = "__pycache__"


def cache_of(function: Callable[..., Any]) -> "_KernelCache | None":
    """The cache of a kernel's compiled signatures; None if nothing can be kept."""
    source = function.__code__.co_filename
    if cache_folder(Path(__file__).parent) is None or not os.path.exists(source):
        return None
    return _KernelCache(function)


@functools.cache
def cache_folder(package: Path) -> Path | None:
    """The folder for compiled kernels; None if there is none. `__pycache__` means the one beside each module."""
    given = numba.config.CACHE_DIR
    if given:
        problem = problem_of_cache(Path(given))
        if problem is None:
            return Path(given)
        _warn(
            f"NUMBA_CACHE_DIR={given} {problem}: it isn't used, because what is read from there is run. Give a folder "
            "that only this user may write to (chmod 700)"
        )
        numba.config.CACHE_DIR = ""  # so that functions of other packages don't use it either
    if _is_writable(package / _BESIDE):
        return Path(_BESIDE)
    for folder in (_user_folder(), _temporary_folder()):
        if folder is not None and problem_of_cache(folder) is None and _is_writable(folder):
            return folder
    _warn(
        "no folder for compiled kernels can be written to, so that every process compiles its own for some seconds or "
        "minutes: set NUMBA_CACHE_DIR to one that only this user may write to"
    )
    return None


def problem_of_cache(folder: Path) -> str | None:
    """Why a folder of compiled kernels can't be trusted; None if it can. A missing folder is made, and is private."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat() if folder.is_symlink() else folder.stat()
    except OSError as error:
        return f"can't be made: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written to by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _user_folder() -> Path | None:
    """The folder that Numba would use, too; None for a user without a home folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "numba" if os.path.isabs(home) else None


def _temporary_folder() -> Path | None:
    try:
        return Path(tempfile.gettempdir()) / f"penstock-kernels-{os.geteuid()}"
    except FileNotFoundError:  # there is no such folder at all
        return None


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """The compiled signatures of one kernel, which any number of processes may add to at once."""

    beside: "IndexDataCacheFile | None" = None  # those that lie beside the sources

    def save(self, key: object, data: object) -> None:
        """Keep a signature's code: first the code, then a line of the index that leads to it."""
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        name = self._index_name.removesuffix(".nbi") + f".{digest}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def load(self, key: object) -> Any:
        """A signature's code; None if it isn't kept."""
        found = super().load(key)
        return self.beside.load(key) if found is None and self.beside is not None else found


class _Locator(InTreeCacheLocator):  # type: ignore[misc]
    """Says where the signatures of one kernel are kept."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        self.beside: str = self._cache_path  # type: ignore[has-type]
        folder = cache_folder(Path(__file__).parent)
        if folder is not None and folder.name != _BESIDE:
            self._cache_path = str(folder / self.get_suitable_cache_subpath(file))

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Locator":
        return cls(function, file)


class _KernelFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Keeps compiled signatures in the folder that was found, and reads those beside the sources, too."""

    _impl_class = _KernelFiles

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _CacheFile
        where = self._impl.locator
        if not numba.config.CACHE_DIR and where.beside != where.get_cache_path():
            base, stamp = self._impl.filename_base, where.get_source_stamp()
            self._cache_file.beside = IndexDataCacheFile(where.beside, base, stamp)
