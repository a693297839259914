"""How kernels are compiled: without Python objects, kept on disk, and without the interpreter's lock."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function over flat arrays with Numba."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
