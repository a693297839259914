"""Allocations as instructions of a kernel, instead of functions that Numba compiles for each type of array.

`kernel_compiler` puts these in the place of NumPy's functions of the same names. They allocate as Numba's functions do,
and raise the same errors for sizes that are negative or too large.
"""

from typing import Any

from numba.core import cgutils
from numba.core.extending import intrinsic
from numba.core.types import float64
from numba.core.types.misc import NoneType, Omitted, unliteral
from numba.core.types.npytypes import Array
from numba.core.typing.npydecl import parse_dtype, parse_shape
from numba.np.arrayobj import _empty_nd_impl, _parse_shape

_OMITTED = Omitted(None)


@intrinsic
def _empty(typing: Any, shape: Any, dtype: Any = _OMITTED) -> Any:
    made = _array_type(shape, dtype, float64)

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _allocate(context, builder, signature, given)._getvalue()

    return made(shape, dtype), write


@intrinsic
def _zeros(typing: Any, shape: Any, dtype: Any = _OMITTED) -> Any:
    made = _array_type(shape, dtype, float64)

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = _allocate(context, builder, signature, given)
        cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
        return array._getvalue()

    return made(shape, dtype), write


@intrinsic
def _full(typing: Any, shape: Any, value: Any, dtype: Any = _OMITTED) -> Any:
    made = _array_type(shape, dtype, unliteral(value))

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = _allocate(context, builder, signature, given)
        item = context.cast(builder, given[1], signature.args[1], made.dtype)
        with cgutils.for_range(builder, array.nitems) as loop:
            place = cgutils.gep(builder, array.data, loop.index)
            context.pack_value(builder, made.dtype, item, place)
        return array._getvalue()

    return made(shape, value, dtype), write


ALLOCATIONS = {"empty": _empty, "zeros": _zeros, "full": _full}


def _array_type(shape: Any, dtype: Any, otherwise: Any) -> Any:
    """The type of a new array."""
    is_given = not isinstance(dtype, Omitted | NoneType)
    return Array(parse_dtype(dtype) if is_given else otherwise, parse_shape(shape), "C")


def _allocate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    sizes = _parse_shape(context, builder, signature.args[0], given[0])
    return _empty_nd_impl(context, builder, signature.return_type, sizes)
