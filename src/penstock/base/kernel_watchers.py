"""Tells a program which kernel is about to be compiled.

It is a module apart from `jit` so that a program can watch without importing Numba, which takes a while.
"""

from collections.abc import Callable

Watcher = Callable[[str], None]
"""A function that is given the name of each kernel before it is compiled."""

_watchers: list[Watcher] = []


def watch_kernels(watcher: Watcher | None) -> None:
    """Set the watcher, which replaces the one before; with None nobody watches."""
    _watchers[:] = [] if watcher is None else [watcher]


def tell_watchers(kernel: str) -> None:
    """Report that a kernel is about to be compiled."""
    for watcher in _watchers:
        watcher(kernel)
