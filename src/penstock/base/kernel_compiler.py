"""How a kernel is compiled: Numba's own way, without what kernels don't need.

Numba is made for any Python function. A kernel uses less of Python: no closure, no `with`, no type that depends on a
constant. The passes that look for those are left out. Besides,

- *code is optimised once*, where it becomes machine code. Numba optimises each kernel that others call, again each
  kernel that calls it, and that one twice. LLVM inlines plain code better than code that it has unrolled and vectorised
  already, so that this makes kernels faster, too;
- *allocations are instructions*. Numba compiles `np.empty` and its like as functions, once for each type of array, with
  machine code that nobody calls. Here they are written into the kernel (`kernel_allocations`);
- *references to arguments aren't counted*. Numba counts the references to an array for each name that the array gets,
  and LLVM has to find out that most counts cancel out. The caller holds references to the arrays that it gives, so a
  kernel that makes no array counts none;
- *functions of Numba's are compiled once*, and not once for each of the two ways in which a kernel is compiled;
- *Python's garbage collector rests* meanwhile. A compiler makes few cycles and very many objects.

Together they save half of the time. The results of kernels stay as they are: a kernel with something that isn't
supported, such as a closure, is an error when it is compiled.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import AnnotateTypes, DumpParforDiagnostics, NopythonTypeInference
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import SliceType
from numba.core.types.scalars import Integer
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    RewriteDynamicRaises,
    WithLifting,
)

from penstock.base.kernel_allocations import ALLOCATIONS

_NEEDLESS = (
    AnnotateTypes,
    DumpParforDiagnostics,
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    RewriteDynamicRaises,
    WithLifting,
)


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Makes machine code and a wrapper that Python calls."""

    def __init__(self, typing: Any, target: Any, library: Any, *given: Any) -> None:
        super().__init__(typing, target, library or _new_library(target), *given)

    def define_pipelines(self) -> Any:
        (steps,) = super().define_pipelines()
        steps.passes[:] = [one for one in steps.passes if one[0] not in _NEEDLESS]
        steps.add_pass_after(_WriteAllocations, IRProcessing)
        steps.add_pass_after(_CountOwnArrays, NopythonTypeInference)
        steps.finalize()
        return [steps]

    def _compile_core(self) -> Any:
        """As Numba's own method, with other flags and without other pipelines to fall back to."""
        with ConfigStack().enter(_shared_flags(self.state.flags)):
            (steps,) = self.define_pipelines()
            steps.run(self.state)
        self.state.pipeline = None
        return self.state.cr


class InnerCompiler(KernelCompiler):
    """Makes code for LLVM, and neither a wrapper nor an entry."""

    def __init__(self, typing: Any, target: Any, library: Any, *given: Any) -> None:
        super().__init__(typing, target, _InnerLibrary(target.codegen(), "inner"), *given)
        self.state.flags.no_cpython_wrapper = True
        self.state.flags.no_compile = True


class _KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that becomes machine code. Numba optimises everything twice at the end, the first time in order to find
    reference counts that cancel out; kernels have few of those."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


def _new_library(target: Any) -> _KernelLibrary:
    library = _KernelLibrary(target.codegen(), "kernel")
    library.enable_object_caching()
    return library


class _InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into others, which optimise it, and never becomes machine code by itself."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _SharedFlags(Flags):  # type: ignore[misc]
    """Options by which Numba looks up the functions of its own that it has compiled. It compares them all the time, so
    here two are equal only if they are the same object."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


_flags: dict[bool, _SharedFlags] = {}


def _shared_flags(flags: Any) -> _SharedFlags:
    """The object for all kernels with, or without, bounds checks. Flags differ otherwise only in what callees don't
    inherit."""
    return _flags.setdefault(bool(flags.boundscheck), _SharedFlags(flags))


@register_pass(mutates_CFG=False, analysis_only=False)
class _WriteAllocations(FunctionPass):  # type: ignore[misc]
    """Has `np.empty` and its like written into the kernel: the name `np.empty` becomes that of our instruction."""

    _name = "penstock_write_allocations"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        code = state.func_ir
        for block in code.blocks.values():
            for one in block.find_insts(ir.Assign):
                made = _allocation(code, one.value)
                if made is not None:
                    one.value = ir.Global(one.value.attr, made, one.value.loc)
                    code._definitions[one.target.name] = [one.value]
        return True


def _allocation(code: Any, value: Any) -> Any:
    """The instruction that replaces a value if it is `np.empty` or its like; None for any other value."""
    if not (isinstance(value, ir.Expr) and value.op == "getattr"):
        return None
    (owner, *others) = code._definitions[value.value.name]
    is_module = not others and isinstance(owner, ir.Global | ir.FreeVar)
    if not is_module or getattr(owner.value, "__name__", "") != "numpy":
        return None
    return ALLOCATIONS.get(value.attr)


@register_pass(mutates_CFG=False, analysis_only=False)
class _CountOwnArrays(FunctionPass):  # type: ignore[misc]
    """A kernel that makes no array and returns none doesn't count the references to the arrays that it is given.

    Assigning an array or a tuple to a part of an array takes functions of Numba's that count references: a kernel that
    does so counts, too.
    """

    _name = "penstock_count_own_arrays"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if _has_arrays(state.return_type, state):
            return False
        for block in state.func_ir.blocks.values():
            if any(_makes_array(one, state) for one in block.find_insts(ir.Assign)):
                return False
            if any(_copies_values(one, state) for one in block.find_insts(_ASSIGNED_ITEMS)):
                return False
        state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return True


_ASSIGNED_ITEMS = (ir.SetItem, ir.StaticSetItem)


def _makes_array(one: Any, state: Any) -> bool:
    kind = state.typemap[one.target.name]
    return not _is_given(one.value, state) and _has_arrays(kind, state)


def _copies_values(one: Any, state: Any) -> bool:
    kind = state.typemap[one.value.name]
    return isinstance(kind, BaseTuple) or _has_arrays(kind, state)


def _has_arrays(kind: Any, state: Any) -> bool:
    """Whether values of a type are arrays or have some."""
    return state.targetctx.data_model_manager[kind].contains_nrt_meminfo()  # type: ignore[no-any-return]


_GIVEN = {"build_tuple", "cast", "exhaust_iter", "getattr", "null", "phi", "static_getitem"}


def _is_given(value: Any, state: Any) -> bool:
    """Whether a value is an argument, a constant, or part of one: somebody else holds the arrays in it, if any."""
    if not isinstance(value, ir.Expr) or value.op in _GIVEN:
        return True
    return value.op == "getitem" and _is_part(state.typemap[value.index.name])


def _is_part(index: Any) -> bool:
    """Whether indexing with this type gives a part of the array, and not a new array."""
    parts = index.types if isinstance(index, BaseTuple) else (index,)
    return all(isinstance(one, Integer | SliceType) for one in parts)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """A time in which Python collects no garbage."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
