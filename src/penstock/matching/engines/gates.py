"""What an index can't decide is evaluated only for events that the rest of its conjunction lets through.

A pattern, or an attribute against another, costs a hundred nanoseconds and more for each event, and a subscription may
ask for thousands. So engines get a *core* of the plan: its conjunctions without such tests. What a core lets through is
tested one test after the other, only while all before were true:

    events ─▶ core (engine) ─▶ candidates ─▶ 1st test of each ─▶ those left ─▶ 2nd test … ─▶ hits

Tests are *eager*, that is attributes of the core with cells for every event, where there is no better way:

    a conjunction without an attribute to index      its most common test: engines need something to find it by
    a test of very many conjunctions                 one evaluation serves all, and an index by it pays
    array memberships                                the first few of each conjunction: one pass finds them all

The arrays of a core stand among those of the engine (`Choice.index`), so that workers map them.
"""

import threading
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import AnyArray, Bools, Int32s, Int64s, offsets, read_only, runs
from penstock.base.jit import kernel
from penstock.language.computed import columns_at
from penstock.matching.derived import UNKNOWN, DerivedAttributes, PlainTest
from penstock.matching.engines.interface import Hits, TooManyHitsError
from penstock.matching.plan import Plan
from penstock.matching.sharing import CellTests, Shared, share

_PREFIX = "core."
_SHARED = 256  # a test of at least so many conjunctions is eager …
_MOST_SHARED = 32  # … if it is among so many that are used most
_MEMBERSHIPS = 8  # of a conjunction, that are eager


def build_core(plan: Plan) -> dict[str, AnyArray]:
    """The arrays of a core, by name; none if no test is lazy."""
    if not len(plan.derived):
        return {}
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.conjunction_start))
    test = plan.tested_attribute.astype(np.int64) - len(plan.domains)
    uses = np.bincount(test[test >= 0], minlength=len(plan.derived))
    eager = _eager(conjunction, test, uses, len(plan.derived.plain), plan.conjunctions)
    lazy = test >= 0
    lazy[lazy] = ~eager[test[lazy]]
    if not lazy.any():
        return {}
    shared = share(
        _without(plan, conjunction, lazy, eager),
        np.arange(plan.conjunctions),
        np.delete(plan.last_cells, len(plan.domains) + np.flatnonzero(~eager)),
        derived_from=len(plan.domains),
    )
    # The tests of a conjunction that others have, too, come first: they are evaluated together.
    order = np.flatnonzero(lazy)
    order = order[np.lexsort((test[order], -uses[test[order]], conjunction[order]))]
    rest = {
        "eager": np.flatnonzero(eager).astype(np.int32),
        "rest_start": offsets(np.bincount(conjunction[order], minlength=plan.conjunctions)),
        "rest_test": test[order].astype(np.int32),
        "rest_cell": plan.predicate_low[order],
    }
    arrays = vars(shared) | rest
    return {_PREFIX + name: array for name, array in arrays.items()}


def _eager(conjunction: Int64s, test: Int64s, uses: Int64s, plain: int, conjunctions: int) -> Bools:
    """Which derived attributes are eager."""
    eager = np.zeros(len(uses), np.bool_)
    most = np.argsort(-uses[:plain], kind="stable")[:_MOST_SHARED]
    eager[most[uses[most] >= _SHARED]] = True
    is_derived = test >= 0
    order = np.flatnonzero(is_derived)
    order = order[np.lexsort((test[order], -uses[test[order]], conjunction[order]))]
    members = order[test[order] >= plain]
    eager[test[members[_place_in_run(conjunction[members]) < _MEMBERSHIPS]]] = True
    found = np.zeros(conjunctions, np.bool_)
    found[conjunction[~is_derived]] = True
    found[conjunction[order[eager[test[order]]]]] = True
    lost = order[~found[conjunction[order]]]
    eager[test[lost[_place_in_run(conjunction[lost]) == 0]]] = True
    return eager


def _place_in_run(values: Int64s) -> Int64s:
    """Of sorted values: how many equal ones stand before each.

    >>> _place_in_run(np.array([3, 3, 5, 7, 7, 7])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    place: Int64s = np.arange(len(values)) - np.searchsorted(values, values)
    return place


def _without(plan: Plan, conjunction: Int64s, lazy: Bools, eager: Bools) -> CellTests:
    """The tests of the conjunctions that aren't lazy; derived attributes are numbered anew."""
    coded = plan.predicate_attribute
    is_set = coded < 0
    sets = ~coded[is_set]
    ranges = np.ones(len(coded), np.int64)
    ranges[is_set] = np.diff(plan.set_start)[sets]
    low, high = np.repeat(plan.predicate_low, ranges), np.repeat(plan.predicate_high, ranges)
    in_set = np.repeat(is_set, ranges)
    at = runs(plan.set_start[sets], ranges[is_set])
    low[in_set], high[in_set] = plan.set_low[at], plan.set_high[at]
    domains = len(plan.domains)
    number = np.concatenate([np.arange(domains), domains + np.cumsum(eager) - 1])
    attribute = number[plan.tested_attribute]
    return CellTests(conjunction, attribute, ranges, low, high).where(~lazy)


class Gate:
    """The core of a plan, and the tests that are left for what it lets through.

    Nothing in it changes but the count of tests that were evaluated for each conjunction.
    """

    def __init__(self, plan: Plan, arrays: Mapping[str, AnyArray]) -> None:
        own = {
            name.removeprefix(_PREFIX): read_only(array)
            for name, array in arrays.items()
            if name.startswith(_PREFIX)
        }
        derived, eager = plan.derived, own["eager"]
        plain = len(derived.plain)
        members = eager[eager >= plain] - plain
        arranged: dict[str, Any] = {f.name: own[f.name] for f in fields(Shared)}
        self.core = replace(
            plan,
            derived=DerivedAttributes(
                tuple(derived.plain[n] for n in eager[eager < plain]),
                derived.elements,
                derived.array[members],
                derived.low[members],
                derived.high[members],
            ),
            **arranged,
        )
        self.plan = plan
        # The lazy tests of conjunction c: _test[i] has to be in _cell[i], i from _start[c] to _start[c + 1].
        self._start, self._test, self._cell = (own[f"rest_{n}"] for n in ("start", "test", "cell"))
        self._lengths = np.diff(self._start)
        self._evaluations = np.zeros(plan.conjunctions, np.int64)
        self._lock = threading.Lock()

    @staticmethod
    def of(plan: Plan, arrays: Mapping[str, AnyArray]) -> "Gate | None":
        """From what `build_core` built, perhaps mapped from files; None if no test is lazy."""
        return Gate(plan, arrays) if _PREFIX + "eager" in arrays else None

    def candidates(self, hits: Hits, most: int) -> Hits:
        """The conjunctions of the plan, given those of the core; TooManyHitsError if there are more than `most`."""
        start, fan = self.core.fan_start, self.core.fan_subscription
        lengths = (start[1:] - start[:-1])[hits.conjunction].astype(np.int64)
        if int(lengths.sum()) > most:
            raise TooManyHitsError(f"more than {most:,} conjunctions may hold for these events")
        return Hits(np.repeat(hits.event, lengths), fan[runs(start[hits.conjunction], lengths)])

    def is_open(self, hits: Hits) -> bool:
        """Whether something is left to test of the candidates."""
        return bool(self._lengths[hits.conjunction].any())

    def let_through(self, hits: Hits, needed: Bools, batch: pa.RecordBatch) -> Hits:
        """The candidates that hold. Those that aren't `needed` aren't tested: nobody has them any more."""
        lengths = self._lengths[hits.conjunction]
        done = lengths == 0
        kept_event, kept = [hits.event[done]], [hits.conjunction[done]]
        left = ~done & needed
        event, conjunction, lengths = hits.event[left], hits.conjunction[left], lengths[left]
        turn = 0
        while len(event):
            with self._lock:
                np.add.at(self._evaluations, conjunction, 1)
            place = self._start[conjunction] + turn
            held = self._cells(batch, event, self._test[place]) == self._cell[place]
            turn += 1
            done = held & (lengths == turn)
            kept_event.append(event[done])
            kept.append(conjunction[done])
            left = held & (lengths > turn)
            event, conjunction, lengths = event[left], conjunction[left], lengths[left]
        return Hits(np.concatenate(kept_event), np.concatenate(kept))

    def tests_of(self, conjunction: int) -> list[tuple[int, int]]:
        """The numbers of the lazy tests of a conjunction, and the cells that they have to be in."""
        run = slice(self._start[conjunction], self._start[conjunction + 1])
        return list(zip(self._test[run].tolist(), self._cell[run].tolist(), strict=True))

    def _cells(self, batch: pa.RecordBatch, event: Int32s, test: Int32s) -> Int32s:
        """The cell of a test for an event, for each pair of them: each distinct pair is evaluated once."""
        if (test == test[0]).all():
            return self._cells_of_one(batch, event, int(test[0]))
        cells = np.empty(len(event), np.int32)
        order = np.argsort(test, kind="stable")
        bounds = np.flatnonzero(np.diff(test[order], prepend=-1))
        for first, past in zip(bounds, np.append(bounds[1:], len(order)), strict=True):
            mine = order[first:past]
            cells[mine] = self._cells_of_one(batch, event[mine], int(test[mine[0]]))
        return cells

    def _cells_of_one(self, batch: pa.RecordBatch, event: Int32s, test: int) -> Int32s:
        if 8 * len(event) < batch.num_rows:
            events, inverse = np.unique(event, return_inverse=True)
            return cells_of(self.tests[test], batch, events)[inverse]
        is_asked = np.zeros(batch.num_rows, np.bool_)  # to sort many takes as long as to test them
        is_asked[event] = True
        events = np.flatnonzero(is_asked).astype(np.int32)
        cells = np.empty(batch.num_rows, np.int32)
        cells[events] = cells_of(self.tests[test], batch, events)
        return cells[event]

    def count(self, conjunction: int, tests: int) -> None:
        """Note that somebody else has evaluated so many tests for a conjunction."""
        with self._lock:
            self._evaluations[conjunction] += tests

    def take_evaluations(self) -> Int64s:
        """How many tests were evaluated for each conjunction since this was last asked."""
        with self._lock:
            taken, self._evaluations = self._evaluations, np.zeros_like(self._evaluations)
        return taken

    @cached_property
    def tests(self) -> tuple["LazyTest", ...]:
        """Every derived attribute of the plan, by number."""
        derived = self.plan.derived
        members = zip(derived.array, derived.low, derived.high, strict=True)
        return (
            *derived.plain,
            *(
                DerivedAttributes(
                    (),
                    (derived.elements[array],),
                    np.zeros(1, np.int32),
                    np.array([low], np.int32),
                    np.array([high], np.int32),
                )
                for array, low, high in members
            ),
        )


LazyTest = PlainTest | DerivedAttributes


def cells_of(test: LazyTest, batch: pa.RecordBatch, events: Int32s) -> Int32s:
    """The cells of a test for some events of a batch, which are in ascending order, each once."""
    out = np.full(len(events), UNKNOWN, np.int32)
    some = columns_at(batch, test.paths())
    if some is None:
        return out
    if len(events) < batch.num_rows:
        some = some.take(pa.array(events))
    if isinstance(test, DerivedAttributes):
        test.member_cells(some, out.reshape(1, -1))
    else:
        test.cells(some, out)
    return out


@kernel
def are_needed(
    conjunction: Int32s, fan_start: Int32s, fan: Int32s, expires: Int64s, now: int, gone: Bools
) -> Bools:
    """Whether somebody still needs each of these; `expires` and `gone` may be empty, as for `collect`."""
    needed = np.zeros(len(conjunction), np.bool_)
    for n in range(len(conjunction)):
        c = conjunction[n]
        for i in range(fan_start[c], fan_start[c + 1]):
            s = fan[i]
            if not (len(expires) and expires[s] <= now) and not (len(gone) and gone[s]):
                needed[n] = True
                break
    return needed
