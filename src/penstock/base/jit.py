"""How kernels are compiled: without Python objects, kept on disk (`kernel_cache`), and without the interpreter's lock.

A kernel is compiled in one of two ways. If Python calls it, it becomes machine code with a wrapper, and is kept. If
another kernel calls it, it becomes code for LLVM that is linked into the caller, and nothing else: no wrapper, no
machine code of its own, no file. Numba by itself makes all of that for every kernel, although two of three kernels are
called by other kernels only.

Each kernel that is compiled is reported to `kernel_watchers`, so that a program can say what it is waiting for.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

from penstock.base.kernel_cache import cache_of
from penstock.base.kernel_compiler import InnerCompiler, KernelCompiler, collector_at_rest
from penstock.base.kernel_watchers import tell_watchers

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = {"nopython": True, "nogil": True, "boundscheck": None, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile a function over flat arrays with Numba, when it is called. A kernel doesn't call itself."""
    if numba.config.DISABLE_JIT:
        return function
    made = _Kernel(function, targetoptions=_OPTIONS, pipeline_class=KernelCompiler)
    cache = cache_of(function)
    if cache is not None:
        made._cache = cache
    return cast(F, made)


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel as Python calls it; kernels that call it get the other form."""

    def __init__(self, function: Callable[..., Any], *given: Any, **options: Any) -> None:
        super().__init__(function, *given, **options)
        self._inner = _InnerKernel(function, *given, **{**options, "pipeline_class": InnerCompiler})

    def compile(self, sig: Any) -> Any:
        with collector_at_rest():
            return super().compile(sig)

    def __reduce__(self) -> Any:
        """A kernel is pickled by its name, as functions are. Numba pickles it by value: each Spark worker would get a
        copy that has no cache, and compile it."""
        name = self.py_func.__qualname__
        module = sys.modules.get(self.py_func.__module__)
        is_found = self.py_func.__module__ != "__main__" and getattr(module, name, None) is self
        return name if is_found else super().__reduce__()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The form that a calling kernel links. Numba's own way compiles anew for each constant argument."""
        plain = {name: unliteral(value) for name, value in kws.items()}
        return self._inner.get_call_template([unliteral(value) for value in args], plain)

    def get_overload(self, sig: Any) -> Any:
        return self._inner.get_overload(sig)


class _InnerKernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel as other kernels call it. Numba finds the code of a callee by its entry point. This form has none, so
    any object stands for it."""

    def add_overload(self, compiled: Any) -> None:
        compiled = compiled._replace(entry_point=object())
        self.targetctx.insert_user_function(
            compiled.entry_point, compiled.fndesc, [compiled.library]
        )
        self.overloads[tuple(compiled.signature.args)] = compiled


class _Watch(event.Listener):  # type: ignore[misc]
    """Hears from Numba what it compiles: kernels, and functions of its own that they call."""

    def on_start(self, compiling: Any) -> None:
        made = compiling.data["dispatcher"]
        if isinstance(made, _Kernel | _InnerKernel):
            tell_watchers(made.py_func.__name__)

    def on_end(self, compiling: Any) -> None:
        pass


event.register("numba:compile", _Watch())
