"""Checks of what kernels rely on in arrays that are mapped from files.

A kernel checks no bounds: a place outside an array would crash the process or, worse, be read. So arrays that are
mapped from a file are checked once, when the file is opened, even if its checksum is right. Each structure has a method
`check` beside its fields, which says what must hold of them; it is put together from the functions here. Each of these
is a pass over whole arrays.
"""

from typing import Any

from penstock.base.arrays import AnyArray
from penstock.base.errors import SnapshotError


def require(holds: Any, what: str) -> None:
    """A SnapshotError unless a condition holds; `what` names the one that doesn't."""
    if not bool(holds):
        raise SnapshotError(f"an invariant of plans is broken: {what}")


def check_numbers(dtype: type, **arrays: AnyArray) -> None:
    """The arrays are one-dimensional, contiguous and of this type: kernels are compiled for such arrays."""
    for name, array in arrays.items():
        require(
            array.ndim == 1 and array.dtype == dtype and array.flags.c_contiguous,
            f"{name} is {array.dtype} of {array.ndim} dimensions",
        )


def check_alike(count: int, **arrays: AnyArray) -> None:
    """The arrays have this length."""
    for name, array in arrays.items():
        require(len(array) == count, f"{name} has {len(array)} elements instead of {count}")


def check_starts(count: int, length: int, **arrays: AnyArray) -> None:
    """The arrays say where each of `count` runs begins, which lie end to end over `length` elements; and the end."""
    for name, starts in arrays.items():
        check_alike(count + 1, **{name: starts})
        require(starts[0] == 0 and starts[-1] == length, f"{name} doesn't go from 0 to {length}")
        require((starts[1:] >= starts[:-1]).all(), f"{name} goes back")


def check_within(least: int, past: int, **arrays: AnyArray) -> None:
    """All elements of the arrays are in least .. past - 1."""
    for name, values in arrays.items():
        if len(values):
            require(
                values.min() >= least and values.max() < past,
                f"{name} isn't within {least} .. {past - 1}",
            )


def check_cells(last: AnyArray, low: AnyArray, high: AnyArray, what: str) -> None:
    """The ranges low .. high have cells that exist: none before 0, and none after `last`."""
    require(((low >= 0) & (low <= high) & (high <= last)).all(), f"{what} have cells that aren't")
