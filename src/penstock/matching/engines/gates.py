"""Gates: tests that no index decides are evaluated only for events that the rest of their conjunction lets through.

A pattern, or a comparison of two attributes, costs a hundred nanoseconds and more for each event, and a subscription
may ask for thousands. So engines get a *core* of the plan: its conjunctions without such tests, and without the
conjunctions that a pattern finds (`text_access`). Candidates, which the core lets through or a pattern leads to, go
through their tests one after the other, as long as all tests before were true:

    events ─┬▶ core (engine) ──────▶ candidates ─▶ 1st test of each ─▶ those left ─▶ 2nd test … ─▶ hits
            └▶ patterns in texts ──▶

A pattern with a needle is not evaluated for candidates: the pass that finds patterns has found all that hold.

Tests are *eager*, that is attributes of the core with cells for every event, where there is no better way:

    a conjunction without an attribute to index      its most common test: engines need something to find it by
    a test of very many conjunctions                 one evaluation serves all, and an index by it pays
    array memberships                                the first few of each conjunction: one pass finds them all

The arrays of a core stand among those of the engine (`Choice.index`), so that workers map them.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import AnyArray, Bools, Int32s, Int64s, offsets, read_only, runs
from penstock.base.jit import kernel
from penstock.language.calls import Path
from penstock.language.computed import columns_at
from penstock.matching.derived import AttributeTest, DerivedAttributes
from penstock.matching.engines.interface import Hits, TooManyHitsError
from penstock.matching.engines.text_access import TextAccess, access_patterns, text_arrays
from penstock.matching.kernels import FALSE, TRUE, UNKNOWN
from penstock.matching.plan import Plan
from penstock.matching.sharing import CellTests, Shared, share
from penstock.matching.text_patterns import FoundPatterns, TextPatterns, text_column

_PREFIX = "core."
_SHARED = 256  # a test of at least so many conjunctions is eager …
_MOST_SHARED = 32  # … if it is among so many that are used most
_MEMBERSHIPS = 8  # of a conjunction, that are eager


def build_core(plan: Plan) -> dict[str, AnyArray]:
    """The arrays of a core, by name; none if no test is lazy."""
    if not len(plan.derived):
        return {}
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.conjunction_start))
    access = access_patterns(plan, conjunction)
    by_engine = access < 0
    in_core = by_engine[conjunction]
    test = plan.tested_attribute.astype(np.int64) - len(plan.domains)
    uses = np.bincount(test[(test >= 0) & in_core], minlength=len(plan.derived))
    eager = np.zeros(len(plan.derived), np.bool_)
    if in_core.any():
        number = np.cumsum(by_engine) - 1
        eager = _eager(number[conjunction[in_core]], test[in_core], uses, plan.derived)
    lazy = test >= 0
    lazy[lazy] = ~eager[test[lazy]]
    if not lazy.any() and by_engine.all():
        return {}
    shared = share(
        _core_tests(plan, conjunction, in_core & ~lazy, eager, by_engine),
        np.flatnonzero(by_engine),
        np.delete(plan.last_cells, len(plan.domains) + np.flatnonzero(~eager)),
        derived_from=len(plan.domains),
    )
    # What finds a conjunction needs no test.
    by_text = text_arrays(plan, access, ~lazy, _core_rows(plan, eager))
    lazy[access[access >= 0]] = False
    # The tests of a conjunction that others have, too, come first: they are evaluated together.
    order = np.flatnonzero(lazy)
    order = order[np.lexsort((test[order], -uses[test[order]], conjunction[order]))]
    rest = {
        "eager": np.flatnonzero(eager).astype(np.int32),
        "rest_start": offsets(np.bincount(conjunction[order], minlength=plan.conjunctions)),
        "rest_test": test[order].astype(np.int32),
        "rest_cell": plan.predicate_low[order],
    }
    arrays = vars(shared) | by_text | rest
    return {_PREFIX + name: array for name, array in arrays.items()}


def _eager(conjunction: Int64s, test: Int64s, uses: Int64s, derived: DerivedAttributes) -> Bools:
    """Which derived attributes are eager. Conjunctions are numbered without gaps."""
    eager = np.zeros(len(uses), np.bool_)
    conjunctions = int(conjunction[-1]) + 1
    plain = derived.first_member
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


def _core_rows(plan: Plan, eager: Bools) -> Int64s:
    """The row of cells that each attribute has in the core. Lazy tests have none; their numbers mean nothing."""
    domains = len(plan.domains)
    return np.concatenate([np.arange(domains), domains + np.cumsum(eager) - 1]).astype(np.int64)


def _core_tests(
    plan: Plan, conjunction: Int64s, kept: Bools, eager: Bools, by_engine: Bools
) -> CellTests:
    """The tests that are kept, of the conjunctions that an engine finds; these and attributes are numbered anew."""
    coded = plan.predicate_attribute
    is_set = coded < 0
    sets = ~coded[is_set]
    ranges = np.ones(len(coded), np.int64)
    ranges[is_set] = np.diff(plan.set_start)[sets]
    low, high = np.repeat(plan.predicate_low, ranges), np.repeat(plan.predicate_high, ranges)
    in_set = np.repeat(is_set, ranges)
    at = runs(plan.set_start[sets], ranges[is_set])
    low[in_set], high[in_set] = plan.set_low[at], plan.set_high[at]
    attribute = _core_rows(plan, eager)[plan.tested_attribute]
    number = np.cumsum(by_engine) - 1
    return CellTests(number[conjunction], attribute, ranges, low, high).where(kept)


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
        plain, first_member = len(derived.plain), derived.first_member
        members = eager[eager >= first_member] - first_member
        patterns = eager[(eager >= plain) & (eager < first_member)] - plain
        arranged: dict[str, Any] = {f.name: own[f.name] for f in fields(Shared)}
        self.core = replace(
            plan,
            derived=DerivedAttributes(
                tuple(derived.plain[n] for n in eager[eager < plain]),
                derived.patterns.take(patterns),
                derived.elements,
                derived.array[members],
                derived.low[members],
                derived.high[members],
            ),
            **arranged,
        )
        self.plan = plan
        self._first_pattern, self._past_pattern = plain, first_member
        is_eager = np.zeros(len(derived), np.bool_)
        is_eager[eager] = True
        self._by_text = TextAccess(plan, own, _core_rows(plan, is_eager))
        self.finds_patterns = bool(derived.patterns.indexed.any())
        # The lazy tests of conjunction c: _test[i] has to be in _cell[i], i from _start[c] to _start[c + 1].
        self._start, self._test, self._cell = (own[f"rest_{n}"] for n in ("start", "test", "cell"))
        self._lengths = np.diff(self._start)
        self._evaluations = np.zeros(plan.conjunctions, np.int64)
        self._lock = threading.Lock()
        self._tests: dict[int, LazyTest] = {}

    @staticmethod
    def of(plan: Plan, arrays: Mapping[str, AnyArray]) -> "Gate | None":
        """From what `build_core` built, perhaps mapped from files; None if no test is lazy."""
        return Gate(plan, arrays) if _PREFIX + "eager" in arrays else None

    def _core_candidates(self, hits: Hits, most: int) -> Hits:
        if not len(hits.event):
            return hits
        start, fan = self.core.fan_start, self.core.fan_subscription
        lengths = (start[1:] - start[:-1])[hits.conjunction].astype(np.int64)
        if int(lengths.sum()) > most:
            raise TooManyHitsError(f"more than {most:,} conjunctions may hold for these events")
        return Hits(np.repeat(hits.event, lengths), fan[runs(start[hits.conjunction], lengths)])

    def find_patterns(self, batch: pa.RecordBatch, most: int) -> FoundPatterns | None:
        """The patterns that events match, None if the plan needs none; TooManyHitsError if they are too many."""
        if not self.finds_patterns:
            return None
        found = self.plan.derived.patterns.find(batch, most)
        if found is None:
            raise TooManyHitsError(f"more than {most:,} patterns may hold for these events")
        return found

    def candidates(self, hits: Hits, found: FoundPatterns | None, cells: Int32s, most: int) -> Hits:
        """The conjunctions of the plan, given those of the core and the patterns; TooManyHitsError if there are more
        than `most`."""
        candidates = self._core_candidates(hits, most)
        if found is None or not len(self._by_text):
            return candidates
        more = self._by_text.hits(found, cells, most - len(candidates.event))
        if not len(candidates.event):
            return more
        return Hits(
            np.concatenate([candidates.event, more.event]),
            np.concatenate([candidates.conjunction, more.conjunction]),
        )

    def is_open(self, hits: Hits) -> bool:
        """Whether something is left to test of the candidates."""
        return bool(self._lengths[hits.conjunction].any())

    def let_through(
        self, hits: Hits, needed: Bools, batch: pa.RecordBatch, found: FoundPatterns | None
    ) -> Hits:
        """The candidates that hold. Those that aren't `needed` aren't tested: no subscription has them any more."""
        lengths = self._lengths[hits.conjunction]
        done = lengths == 0
        kept_event, kept = [hits.event[done]], [hits.conjunction[done]]
        left = ~done & needed
        event, conjunction, lengths = hits.event[left], hits.conjunction[left], lengths[left]
        turn = 0
        while len(event):
            place = self._start[conjunction] + turn
            test = self._test[place]
            is_found = self._is_found[test]
            with self._lock:
                np.add.at(self._evaluations, conjunction[~is_found], 1)
            cells = np.empty(len(event), np.int32)
            if found is not None and is_found.any():
                cells[is_found] = self._found_cells(found, event[is_found], test[is_found])
            if not is_found.all():
                cells[~is_found] = self._cells(batch, event[~is_found], test[~is_found])
            held = cells == self._cell[place]
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

    @cached_property
    def _is_found(self) -> Bools:
        """Which tests are patterns that the pass over texts finds."""
        derived = self.plan.derived
        members = np.zeros(len(derived.array), np.bool_)
        return np.concatenate(
            [np.zeros(len(derived.plain), np.bool_), derived.patterns.indexed, members]
        )

    def is_found(self, test: int) -> bool:
        """Whether a test is a pattern that the pass over texts finds."""
        return bool(self._is_found[test])

    def _found_cells(self, found: FoundPatterns, event: Int32s, test: Int32s) -> Int32s:
        """The cells of patterns that were found or not, for pairs of event and test."""
        patterns = self.plan.derived.patterns
        pattern = test - self._first_pattern
        cells = np.where(found.hold(event, pattern), TRUE, FALSE).astype(np.int32)
        attribute = patterns.attribute[pattern]
        for number, missing in enumerate(found.missing):
            if missing is not None:
                cells[(attribute == number) & missing[event]] = UNKNOWN
        return cells

    def found_cell(self, found: FoundPatterns, test: int) -> int:
        """The same for one test of a single event."""
        event = np.zeros(1, np.int32)
        return int(self._found_cells(found, event, np.array([test], np.int32))[0])

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
            return cells_of(self.lazy_test(test), batch, events)[inverse]
        is_asked = np.zeros(batch.num_rows, np.bool_)  # to sort many takes as long as to test them
        is_asked[event] = True
        events = np.flatnonzero(is_asked).astype(np.int32)
        cells = np.empty(batch.num_rows, np.int32)
        cells[events] = cells_of(self.lazy_test(test), batch, events)
        return cells[event]

    def count(self, conjunction: int, tests: int) -> None:
        """Count tests that a caller has evaluated itself for a conjunction."""
        with self._lock:
            self._evaluations[conjunction] += tests

    def take_evaluations(self) -> Int64s:
        """How many tests were evaluated for each conjunction since this was last asked."""
        with self._lock:
            taken, self._evaluations = self._evaluations, np.zeros_like(self._evaluations)
        return taken

    def lazy_test(self, number: int) -> "LazyTest":
        """A derived attribute of the plan, by number."""
        test = self._tests.get(number)
        if test is None:
            test = self._tests.setdefault(number, self._lazy_test(number))
        return test

    def _lazy_test(self, number: int) -> "LazyTest":
        derived = self.plan.derived
        if number < self._first_pattern:
            return derived.plain[number]
        if number < self._past_pattern:
            return LonePattern(derived.patterns, number - self._first_pattern)
        member = slice(number - self._past_pattern, number - self._past_pattern + 1)
        return DerivedAttributes(
            (),
            TextPatterns.none(),
            (derived.elements[derived.array[member][0]],),
            np.zeros(1, np.int32),
            derived.low[member],
            derived.high[member],
        )


@dataclass(frozen=True, slots=True)
class LonePattern:
    """One pattern of a plan."""

    patterns: TextPatterns
    number: int

    def paths(self) -> list[Path]:
        return [self.patterns.paths[self.patterns.attribute[self.number]]]

    def cells(self, batch: pa.RecordBatch, out: Int32s) -> None:
        column = text_column(batch, self.paths()[0])
        if column is None:
            out[:] = UNKNOWN
        else:
            out[:] = self.patterns.column_cells(self.number, column)


LazyTest = AttributeTest | LonePattern | DerivedAttributes


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
    """Whether a living subscription has each conjunction; `expires` and `gone` may be empty, as for `collect`."""
    needed = np.zeros(len(conjunction), np.bool_)
    for n in range(len(conjunction)):
        c = conjunction[n]
        for i in range(fan_start[c], fan_start[c + 1]):
            s = fan[i]
            if not (len(expires) and expires[s] <= now) and not (len(gone) and gone[s]):
                needed[n] = True
                break
    return needed
