"""The flat arrays that kernels work on: their names, and what every room does with them."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
Float64s = npt.NDArray[np.float64]

Number = TypeVar("Number", bound=np.integer[Any])


def distinct(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The different ones, ascending.

    `np.unique` hashes them before it sorts, which takes up to 80 times as long.

    >>> distinct(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def offsets(lengths: npt.ArrayLike) -> Int64s:
    """Where each of several runs, laid end to end, begins; one more for the end.

    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    found = np.asarray(lengths)
    result = np.zeros(len(found) + 1, np.int64)
    np.cumsum(found, out=result[1:])
    return result


def runs(starts: Int64s | Int32s, lengths: Int64s) -> Int64s:
    """The numbers start .. start + length of each run, end to end.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    shift = np.repeat(starts - offsets(lengths)[:-1], lengths)
    return np.arange(len(shift), dtype=np.int64) + shift


def grow_array(array: AnyArray, size: int, fill: int = 0) -> AnyArray:
    """The array itself if it has room for `size` values; else a copy at least twice as long, the new places filled.

    >>> grow_array(np.array([7]), 3, fill=-1).tolist()
    [7, -1, -1]
    """
    if size <= len(array):
        return array
    larger = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def read_only(array: AnyArray) -> AnyArray:
    """A view that can't be written to, as mapped arrays are: kernels are compiled for one kind of array only."""
    view = array.view(np.ndarray)
    view.setflags(write=False)
    return view
