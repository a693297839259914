"""Arrays that grow while kernels fill them."""

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import AnyArray
from penstock.base.jit import kernel


@kernel
def with_room(array: AnyArray, used: int, more: int) -> AnyArray:
    """An array with room for so many more values behind those in use: itself, or a larger one with the same values."""
    if used + more <= len(array):
        return array
    larger = np.empty(2 * (used + more), array.dtype)
    copy_values(larger, 0, array, 0, used)
    return larger
