"""Checks of what kernels rely on, passes over whole arrays, of which each structure puts together its own.

A kernel checks no bounds. So what is mapped from a file is checked once, when it is opened, however right its checksum
is: a place outside an array would crash the process or, worse, be read. Each structure has a method `check` beside its
fields that says what must hold of them.
"""

from typing import Any

from penstock.base.arrays import AnyArray
from penstock.base.errors import SnapshotError


def require(holds: Any, what: str) -> None:
    """A SnapshotError unless something holds."""
    if not bool(holds):
        raise SnapshotError(f"an invariant of plans is broken: {what}")


def check_numbers(dtype: type, **arrays: AnyArray) -> None:
    """One-dimensional, without gaps, and of this type: kernels are compiled for it."""
    for name, array in arrays.items():
        require(
            array.ndim == 1 and array.dtype == dtype and array.flags.c_contiguous,
            f"{name} is {array.dtype} of {array.ndim} dimensions",
        )


def check_alike(count: int, **arrays: AnyArray) -> None:
    """All of this length."""
    for name, array in arrays.items():
        require(len(array) == count, f"{name} has {len(array)} elements instead of {count}")


def check_starts(count: int, length: int, **arrays: AnyArray) -> None:
    """Where each of `count` runs begins, laid end to end over so many elements; one more for the end."""
    for name, starts in arrays.items():
        check_alike(count + 1, **{name: starts})
        require(starts[0] == 0 and starts[-1] == length, f"{name} doesn't go from 0 to {length}")
        require((starts[1:] >= starts[:-1]).all(), f"{name} goes back")


def check_within(least: int, past: int, **arrays: AnyArray) -> None:
    """All elements in least .. past - 1."""
    for name, values in arrays.items():
        if len(values):
            require(
                values.min() >= least and values.max() < past,
                f"{name} isn't within {least} .. {past - 1}",
            )


def check_cells(last: AnyArray, low: AnyArray, high: AnyArray, what: str) -> None:
    """Ranges of cells that there are, if `last` is the last one for each of them."""
    require(((low >= 0) & (low <= high) & (high <= last)).all(), f"{what} have cells that aren't")
