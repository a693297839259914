"""Kernels compiled without what they don't need give what the same Python gives, and hold no array for too long."""

import ast
import gc
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import event
from numba.core.caching import NullCache
from numba.core.runtime import _nrt_python, rtsys

import penstock
from penstock.base.jit import kernel


@kernel
def _allocate(n):
    return (
        np.zeros(n),
        np.zeros((n, 3), np.uint64),
        np.zeros((2, n), dtype=np.bool_),
        np.full(n, 3),
        np.full((2, n), -1, np.int8),
        np.full(n, 2, dtype=np.float32),
        np.empty((n, 2), np.int32).shape,
        np.empty(n).size,
    )


@kernel
def _total(values):
    total = 0
    for i in range(len(values)):
        total += values[i]
    return total


@kernel
def _sum_of_parts(table, at):
    """Makes no array: rows, columns and slices are parts of the one that it is given."""
    row = table[at]
    other = table[at, 1:]
    return _total(row) + 10 * _total(other) + 100 * _total(table[:, at])


@kernel
def _copy(into, values):
    """Makes no array, but assigns arrays and a tuple to parts of one."""
    into[: len(values)] = values
    into[1:3] = values[:2]
    into[2:4] = (values[0], 7)
    return into[0]


@kernel
def _part(table, at):
    row = table[at]
    return row[1:]


@kernel
def _chosen(values, places):
    """Makes an array, though no function is called."""
    return _total(values[places])


@kernel
def _chosen_rows(table, places):
    return _total(table[places, 1])


@kernel
def _shortest(count):
    """Makes arrays in a loop and keeps one of them."""
    kept = np.zeros(count + 1, np.int64)
    for i in range(count, 0, -1):
        made = np.full(i, i)
        if len(made) < len(kept):
            kept = made
    return kept


def test_allocations_are_those_of_numpy():
    for n in (0, 1, 5):
        for made, expected in zip(_allocate(n), _allocate.py_func(n), strict=True):
            assert np.array_equal(made, expected)
            assert getattr(made, "dtype", None) == getattr(expected, "dtype", None)


def test_an_array_of_a_negative_size_is_an_error():
    with pytest.raises(ValueError, match="negative dimensions"):
        _allocate(-1)


@pytest.fixture
def counted():
    """Numba counts what it allocates and frees."""
    was = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not was:
        _nrt_python.memsys_disable_stats()


TABLE = np.arange(16).reshape(4, 4)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_sum_of_parts, (TABLE, 2)),
        (_copy, (np.zeros(4, np.int64), np.arange(4))),
        (_part, (TABLE, 2)),
        (_chosen, (np.arange(5), np.array([1, 4]))),
        (_chosen_rows, (TABLE, np.array([0, 3]))),
        (_shortest, (4,)),
    ],
)
def test_no_array_is_held_for_longer_than_it_is_used(function, arguments):
    """What is made is freed, and what is given is held by as many as before."""
    assert np.array_equal(function(*arguments), function.py_func(*arguments))
    holders = [sys.getrefcount(one) for one in arguments]
    before = rtsys.get_allocation_stats()
    for _ in range(10):
        function(*arguments)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free
    assert [sys.getrefcount(one) for one in arguments] == holders


def test_what_a_kernel_returns_outlives_what_it_was_given():
    part = _part(np.arange(16).reshape(4, 4), 2)
    gc.collect()
    assert part.tolist() == [9, 10, 11]


def test_an_allocation_compiles_no_function_of_numbas():
    """A kernel that makes arrays of three types, and the one that it calls, are all that is compiled. What asks the
    system for memory is compiled once, with the first allocation of a process."""

    @kernel
    def first():
        return np.empty(1, np.int8)

    @kernel
    def fill(into, value):
        into[:] = value

    @kernel
    def make(n):
        into = np.empty(n, np.int16)
        fill(into, 1)
        return into, np.zeros(n, np.uint8), np.full((n, n), 7.0)

    first._cache = make._cache = NullCache()
    first()
    with event.install_recorder("numba:compile") as recorder:
        make(2)
    compiled = [one.data["dispatcher"].py_func.__name__ for _, one in recorder.buffer]
    assert set(compiled) == {"make", "fill"}


def test_the_garbage_collector_is_as_before():
    @kernel
    def double(x):
        return 2 * x

    gc.disable()
    try:
        double(1)
        assert not gc.isenabled()
    finally:
        gc.enable()
    double(1.0)
    assert gc.isenabled()


_NOT_IN_KERNELS = (
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.DictComp,
    ast.FunctionDef,
    ast.GeneratorExp,
    ast.JoinedStr,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.Try,
    ast.With,
)


def test_no_kernel_has_what_is_not_compiled():
    """Kernels are compiled when they are first called, so that one that can't be is found here and not by a user."""
    root = Path(penstock.__file__).parent
    found = {
        f"{path.relative_to(root)}:{part.lineno}"
        for path in root.rglob("*.py")
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(one, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "kernel" for d in one.decorator_list)
        for statement in one.body
        for part in ast.walk(statement)
        if isinstance(part, _NOT_IN_KERNELS)
    }
    assert not found
