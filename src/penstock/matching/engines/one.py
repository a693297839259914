"""One event through the index and out as ids, in one call.

Each array that a kernel is given makes the call a third of a microsecond slower, and the index and the plan have
twenty. For a batch that is nothing, for one event it would be most of the time. So the addresses of the arrays are
written once into one array, and the kernel finds them there.

The arrays must outlive the addresses: `OneEvent` keeps them.
"""

from typing import Any

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.base.arrays import AnyArray, Bools, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.collect import collect
from penstock.matching.engines.entries import Entries, PlanConjunctions, look_up
from penstock.matching.engines.interface import UNBOUNDED
from penstock.matching.plan import Plan

_ENTRIES = len(Entries._fields)
_CONJUNCTIONS = len(PlanConjunctions._fields)
_FAN = _ENTRIES + _CONJUNCTIONS
assert (_ENTRIES, _CONJUNCTIONS) == (14, 8)  # `_ids` names them one by one


class OneEvent:
    """Looks up single events in the index of a plan."""

    def __init__(
        self, plan: Plan, entries: Entries, conjunctions: PlanConjunctions, gone: Bools
    ) -> None:
        self._arrays: list[AnyArray] = [
            *entries,
            *conjunctions,
            plan.fan_start,
            plan.fan_subscription,
            plan.ids,
            plan.expires,
            gone,
        ]
        assert all(array.flags.c_contiguous for array in self._arrays)
        self._addresses = np.array(
            [number for array in self._arrays for number in (array.ctypes.data, len(array))],
            np.int64,
        )

    def ids(self, cells: Int32s, now: int) -> Int64s:
        """The ids of the subscriptions that an event, a matrix of one column, matches, ascending."""
        found: Int64s = _ids(self._addresses, cells, now)
        return found


def _as_pointer(typing: Any, address: Any) -> Any:
    """An integer as an address, in the form that Numba wants of an intrinsic."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)


@kernel
def _int32s(addresses: Int64s, n: int) -> Int32s:
    found: Int32s = carray(_pointer(addresses[2 * n]), (addresses[2 * n + 1],), np.int32)
    return found


@kernel
def _int64s(addresses: Int64s, n: int) -> Int64s:
    found: Int64s = carray(_pointer(addresses[2 * n]), (addresses[2 * n + 1],), np.int64)
    return found


@kernel
def _flags(addresses: Int64s, n: int) -> Bools:
    found: Bools = carray(_pointer(addresses[2 * n]), (addresses[2 * n + 1],), np.bool_)
    return found


@kernel
def _ids(addresses: Int64s, cells: Int32s, now: int) -> Int64s:
    entries = Entries(
        _int32s(addresses, 0),
        _int32s(addresses, 1),
        _int32s(addresses, 2),
        _int32s(addresses, 3),
        _int32s(addresses, 4),
        _int32s(addresses, 5),
        _int32s(addresses, 6),
        _int32s(addresses, 7),
        _int32s(addresses, 8),
        _int32s(addresses, 9),
        _int32s(addresses, 10),
        _int32s(addresses, 11),
        _int32s(addresses, 12),
        _int32s(addresses, 13),
    )
    conjunctions = PlanConjunctions(
        _int32s(addresses, _ENTRIES),
        _int32s(addresses, _ENTRIES + 1),
        _int32s(addresses, _ENTRIES + 2),
        _int32s(addresses, _ENTRIES + 3),
        _int32s(addresses, _ENTRIES + 4),
        _int32s(addresses, _ENTRIES + 5),
        _int32s(addresses, _ENTRIES + 6),
        _int32s(addresses, _ENTRIES + 7),
    )
    event, found = look_up(cells, entries, conjunctions, UNBOUNDED)
    ids = _int64s(addresses, _FAN + 2)
    _, position = collect(
        event,
        found,
        1,
        _int32s(addresses, _FAN),
        _int32s(addresses, _FAN + 1),
        _int64s(addresses, _FAN + 3),
        now,
        _flags(addresses, _FAN + 4),
        len(ids),
    )
    return ids[position]
