"""Who hears of kernels that are compiled.

Apart from `jit`, so that a program can watch without importing Numba, which takes a while.
"""

from collections.abc import Callable

Watcher = Callable[[str], None]
"""Is given the name of a kernel before it is compiled."""

_watchers: list[Watcher] = []


def watch_kernels(watcher: Watcher | None) -> None:
    """Have somebody told of each kernel from now on, instead of who was told before; None: nobody."""
    _watchers[:] = [] if watcher is None else [watcher]


def tell_watchers(kernel: str) -> None:
    """A kernel is going to be compiled."""
    for watcher in _watchers:
        watcher(kernel)
