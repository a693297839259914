"""A matcher whose subscriptions come and go one at a time, each change seen by the next match: for brokers.

    base        a plan with its index: nothing in it changes, except that subscriptions are marked as gone
    growing     additions since the base: in a tree that grows (`engines.tree_grow`), by labels instead of cells
                (`base.labels`)
    waiting     additions that came in large numbers: nothing is done with them until a single event comes, often never
    odd         additions that a tree of ranges can't hold (patterns, arrays, wide decimals, large sets, operators): a
                small plan, compiled anew when it is needed

A subscription comes as a filter's text, or as boxes of values: brokers send regions, and a merger has no text. Each
kind has plans of its own (`compile`, `box_plan`), side by side in one matcher.

A single event goes through all of them; first, additions that wait are put into the tree. The cost of the additions
grows with their number as the tree's cost does. For a batch, the additions are compiled into a plan beside the base.
When there are many, everything is compiled into a new base in the background. The old base serves until then, and
changes that come meanwhile are made to the new one, too.

A lock guards the additions, for microseconds each; nothing waits for a compilation. The base is asked before the
additions: a subscription that another thread replaces meanwhile is found where it was or where it is, perhaps in both,
never in neither.
"""

import itertools
import logging
import math
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.base.durations import utc_now
from penstock.base.errors import FilterError, SubscriptionErrors, UnknownSubscription
from penstock.base.growth import many_changes
from penstock.base.labels import HIGHEST, LOWEST, NULL, Labels, NoRoomError
from penstock.language.calls import Path
from penstock.language.schema import Schema, SchemaLike
from penstock.language.shapes import Shapes
from penstock.language.values import Values
from penstock.matching.box_plan import Boxes, compile_boxes, is_hidden
from penstock.matching.compile import compile_plan
from penstock.matching.computed_events import ComputedEvents
from penstock.matching.engines.tree_grow import GrowingTree
from penstock.matching.filter_values import AskedValues, read_conjunctions
from penstock.matching.layers import Layer, merge_matches
from penstock.matching.matcher import Matcher
from penstock.matching.operator_stage import OperatorFailure
from penstock.matching.plan import Plan
from penstock.matching.single import KeyReader, key_reader
from penstock.matching.subscription_rows import FOREVER, Rows, SubscriptionSource
from penstock.operators.define import Operators
from penstock.operators.invoke import Health

_log = logging.getLogger(__name__)

_ODD = 9  # an odd addition counts as ten: all of them are compiled again when one changes
_MANY = 64  # from so many that come at once on, additions wait
_WAITING = 5  # so many that wait count as one in the tree: they have cost nothing yet
_MOST_BOXES = 16  # that a conjunction with sets may be in the tree: one for each choice of ranges


class LiveSubscription(NamedTuple):
    """A subscription that was added after the base was compiled. If it has boxes, it has no text."""

    sid: int
    subscriber: str
    text: str
    expires: int
    boxes: Boxes | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    """Subscriptions of both kinds, to be compiled."""

    rows: Rows
    regions: Mapping[int, Boxes]

    def __len__(self) -> int:
        return len(self.rows) + len(self.regions)

    @staticmethod
    def of(subscriptions: Iterable[LiveSubscription]) -> "_Content":
        texts: list[tuple[int, str, str, int]] = []
        regions: dict[int, Boxes] = {}
        for sid, subscriber, text, expires, boxes in subscriptions:
            if boxes is None:
                texts.append((sid, subscriber, text, expires))
            else:
                regions[sid] = boxes
        return _Content(Rows.of(texts), regions)

    def plans(self, schema: Schema) -> list[Plan]:
        """A plan for the texts and one for the regions, if there are any."""
        found: list[Plan] = []
        if len(self.rows):
            plan, errors = compile_plan(self.rows, schema)
            if errors:
                raise SubscriptionErrors(errors)
            found.append(plan)
        if self.regions:
            found.append(compile_boxes(self.regions, schema))
        return found


@dataclass(slots=True)
class _Growing:
    """The additions that a tree can hold, and how to find them again."""

    schema: Schema
    tree: GrowingTree = field(default_factory=GrowingTree)
    attribute: dict[Path, int] = field(default_factory=dict)
    readers: list[KeyReader] = field(default_factory=list)
    labels: list[Labels] = field(default_factory=list)
    owner: dict[int, int] = field(default_factory=dict)  # box -> subscription
    boxes: dict[int, list[int]] = field(default_factory=dict)  # subscription -> boxes
    numbers: Any = field(default_factory=itertools.count)
    computed: ComputedEvents | None = None  # of the attributes; made at the next match

    def add(self, sid: int, asked: Sequence[AskedValues]) -> bool:
        """Put a filter into the tree; False if the tree can't hold it."""
        boxes = self._boxes_of(asked)
        if boxes is None:
            return False
        numbers = self.boxes.setdefault(sid, [])
        for box in boxes:
            number = next(self.numbers)
            self.tree.insert(number, *_columns(box))
            self.owner[number] = sid
            numbers.append(number)
        return True

    def remove(self, sid: int) -> bool:
        """Take a subscription out; False if it isn't here."""
        numbers = self.boxes.pop(sid, None)
        for number in numbers or ():
            self.tree.remove(number)
            del self.owner[number]
        return numbers is not None

    def match(self, event: Mapping[str, Any], now: int) -> set[int]:
        if not self.owner:
            return set()
        if self.computed is None:
            self.computed = ComputedEvents(self.schema, self.attribute)
        event = self.computed.add_to(event, now)
        cells = np.empty((len(self.readers), 1), np.int64)
        for n, (reader, labels) in enumerate(zip(self.readers, self.labels, strict=True)):
            key = reader(event)
            cells[n, 0] = NULL if key is None else labels.of(key)
        return {self.owner[number] for number in self.tree.match(cells).tolist()}

    def _boxes_of(self, asked: Sequence[AskedValues]) -> list["_Box"] | None:
        """The filter as a union of boxes: for each attribute a range of labels."""
        boxes: list[_Box] = []
        for values, tests in asked:
            if tests or not all(map(self._knows, values)):
                return None
            if math.prod(len(v.intervals) + v.null for v in values.values()) > _MOST_BOXES:
                return None
            try:
                ranges = {
                    self.attribute[path]: _label_ranges(self.labels[self.attribute[path]], v)
                    for path, v in values.items()
                }
            except NoRoomError:
                return None
            chosen = itertools.product(*ranges.values())
            boxes += [dict(zip(ranges, box, strict=True)) for box in chosen]
        return boxes

    def _knows(self, path: Path) -> bool:
        """Whether the attribute's values can have labels. A new attribute gets a number."""
        if path in self.attribute:
            return True
        reader = key_reader(self.schema, path)
        if reader is None:
            return False
        self.attribute[path] = len(self.readers)
        self.computed = None
        self.readers.append(reader)
        self.labels.append(Labels())
        return True


_Box = dict[int, tuple[int, int]]


def _columns(box: _Box) -> tuple[Int32s, Int64s, Int64s]:
    return (
        np.array(list(box), np.int32),
        np.array([low for low, _ in box.values()], np.int64),
        np.array([high for _, high in box.values()], np.int64),
    )


def _label_ranges(labels: Labels, values: Values) -> list[tuple[int, int]]:
    """Values as ranges of labels; NULL and the lowest values are one range."""
    ranges = [
        (
            LOWEST if start is None else labels.add(start),
            HIGHEST if end is None else labels.add(end) - 1,
        )
        for start, end in values.intervals
    ]
    if values.null and ranges and ranges[0][0] == LOWEST:
        ranges[0] = NULL, ranges[0][1]
    elif values.null:
        ranges.insert(0, (NULL, NULL))
    return ranges


class LiveMatcher:
    """See the module.

    >>> live = LiveMatcher({"symbol": "string", "price": "double"})
    >>> live.add(1, "symbol = 'GOOG' AND price > 500")
    >>> live.match({"symbol": "GOOG", "price": 550.0})
    [1]
    >>> live.remove(1)
    >>> live.match({"symbol": "GOOG", "price": 550.0})
    []
    """

    def __init__(
        self,
        schema: SchemaLike,
        rows: Rows | None = None,
        engine: str = "auto",
        threads: int = 1,
        operators: Operators | None = None,
    ) -> None:
        self.schema = Schema.of(schema)
        self._operators, self._health = operators, Health()
        self._engine, self._threads = engine, threads
        self._shapes = Shapes.under(self.schema)
        self._lock = threading.Lock()
        self._compaction: threading.Thread | None = None
        self.sequence = 0 if rows is None else rows.sequence
        self._state = self._over(_Content(_NO_ROWS if rows is None else _readable(rows), {}))

    def __len__(self) -> int:
        with self._lock:
            state = self._state
            return len(state.content) - state.left + len(state.added)

    def add(self, sid: int, text: str, subscriber: str = "", expires: int = FOREVER) -> None:
        """Add a subscription, or replace the one of this id. FilterError if it doesn't fit the schema."""
        _, asked = read_conjunctions(text, self._shapes)
        with self._lock:
            self._state.take_out(sid)
            self._state.put(LiveSubscription(sid, subscriber, text, expires), asked)
            self._state.grow()
        self._compact_if_many()

    def add_boxes(self, sid: int, boxes: Boxes) -> None:
        """Add a subscription that is a region: a union of boxes of values (`covering.regions`)."""
        self.add_many_boxes([(sid, boxes)])

    def add_many_boxes(self, regions: Sequence[tuple[int, Boxes]]) -> None:
        """The same for several."""
        with self._lock:
            for sid, boxes in regions:
                self._state.take_out(sid)
                self._state.put(LiveSubscription(sid, "", "", FOREVER, boxes), None)
            if len(regions) < _MANY:
                self._state.grow()
        self._compact_if_many()

    def remove(self, sid: int) -> None:
        """Take a subscription out. UnknownSubscription if it isn't here."""
        if not self.discard(sid):
            raise UnknownSubscription(f"no subscription {sid} in this matcher")

    def discard(self, sid: int) -> bool:
        """Take a subscription out if it is here; whether it was."""
        with self._lock:
            found = self._state.take_out(sid)
        self._compact_if_many()
        return found

    def match(self, event: Mapping[str, Any], now: int | None = None) -> list[int]:
        """The ids of the subscriptions that one event matches, ascending."""
        return self.match_reporting(event, now)[0]

    def match_reporting(
        self, event: Mapping[str, Any], now: int | None = None
    ) -> tuple[list[int], tuple[OperatorFailure, ...]]:
        """The same, and the operators that failed. Subscriptions that they would have decided are left out."""
        moment = utc_now() if now is None else now
        state = self._state
        found, failures = _match_one(state.base, event, moment)
        with self._lock:
            state.grow()
            added = state.added
            found |= {s for s in state.growing.match(event, moment) if added[s].expires > moment}
            odd = state.odd_content()
        ids, failed = _match_one(None if odd is None else self._compiled(odd), event, moment)
        return sorted(found | ids), failures + failed

    def match_batch(self, batch: pa.RecordBatch, now: int | None = None) -> pa.ListArray:
        """The ids for every event of an Arrow batch: one ascending list per event."""
        moment = utc_now() if now is None else now
        state = self._state
        found = None if state.base is None else state.base.matches(batch, moment)
        with self._lock:
            added = state.added_content()
        if added is not None:
            more = self._compiled(added).matches(batch, moment)
            found = more if found is None else merge_matches(found, more)
        if found is None:
            return pa.ListArray.from_arrays([0] * (len(batch) + 1), pa.array([], pa.int64()))
        return found.lists()

    def take_evaluations(self) -> dict[int, int]:
        """As `Matcher.take_evaluations`, by subscription. What was counted is lost whenever a plan is compiled anew."""
        with self._lock:
            state, kept = self._state, (self._state.kept_odd, self._state.kept_added)
        found: Counter[int] = Counter()
        for matcher in (state.base, *(one.matcher for one in kept if one is not None)):
            if matcher is not None:
                found.update(dict(zip(*matcher.take_evaluations(), strict=True)))
        return dict(found)

    def follow(self, source: SubscriptionSource) -> None:
        """Take over what has changed in a registry since this matcher was made of it, or last followed it.

        A subscription that doesn't fit the schema is set aside and logged, as one that can't be read is. The others
        are taken over.
        """
        changes = source.changes(self.sequence)
        for sid in changes.removed.tolist():
            with self._lock:
                self._state.take_out(sid)
        rows = _readable(changes.upserts)
        for sid, subscriber, text, expires in zip(
            rows.ids.tolist(),
            rows.subscribers.to_pylist(),
            rows.filters.to_pylist(),
            rows.expires.tolist(),
            strict=True,
        ):
            try:
                self.add(sid, text, subscriber, expires)
            except FilterError as error:
                self.discard(sid)
                _set_aside(sid, error)
        self.sequence = changes.sequence

    def compact(self) -> None:
        """Compile everything into a new base. Others go on matching, adding and removing meanwhile."""
        with self._lock:
            before = self._state
            content = before.all_content()
            before.log = []
        try:
            after = self._over(content)
        except BaseException:
            with self._lock:
                before.log = None
            raise
        with self._lock:
            for sid, put in before.log or ():
                after.take_out(sid)
                if put is not None:
                    after.put(*put)
            self._state = after

    # --- inside --------------------------------------------------------------------------------

    def _over(self, content: _Content) -> "_State":
        layers = [
            Layer.without(p, np.zeros(len(p.ids), np.bool_)) for p in content.plans(self.schema)
        ]
        bases = [_Base(layer.plan.ids, layer.gone[: len(layer.plan.ids)]) for layer in layers]
        base = self._matcher(layers) if layers else None
        return _State(base, content, bases, _Growing(self.schema))

    def _matcher(self, layers: Plan | Sequence[Layer]) -> Matcher:
        return Matcher(
            layers,
            self._engine,
            self._threads,
            self._operators,
            health=self._health,
        )

    def _compiled(self, kept: "_Kept") -> Matcher:
        """The matcher of a few subscriptions; compiled once for each state of them, outside the lock."""
        if kept.matcher is None:
            kept.matcher = self._matcher([Layer.of(p) for p in kept.content.plans(self.schema)])
        return kept.matcher

    def _compact_if_many(self) -> None:
        with self._lock:
            state = self._state
            waiting = len(state.waiting)
            changes = len(state.added) - waiting + waiting // _WAITING
            changes += _ODD * len(state.odd) + state.left
            if changes <= many_changes(len(state.content)) or self._compaction is not None:
                return
            self._compaction = threading.Thread(
                target=self._compact_aside, name="penstock-live-compaction", daemon=True
            )
        self._compaction.start()

    def _compact_aside(self) -> None:
        try:
            self.compact()
        except Exception:  # noqa: BLE001
            # Nothing is lost: the additions go on growing, and the next change tries again.
            _log.exception("compaction failed")
        finally:
            self._compaction = None


@dataclass(slots=True)
class _Kept:
    """Subscriptions as they were at one moment, and their matcher, once it has been compiled."""

    content: _Content
    matcher: Matcher | None = None


@dataclass(frozen=True, eq=False, slots=True)
class _Base:
    """The subscriptions of one plan of the base, ascending, and which of them are gone."""

    ids: Int64s
    gone: Bools

    def take_out(self, sid: int) -> bool:
        place = int(np.searchsorted(self.ids, sid))
        if place == len(self.ids) or self.ids[place] != sid or self.gone[place]:
            return False
        self.gone[place] = True
        return True


@dataclass(slots=True)
class _State:
    """A base, which of its subscriptions are gone, and what was added. The matcher's lock guards all of it, except the
    base's matcher."""

    base: Matcher | None
    content: _Content  # of the base
    bases: list[_Base]
    growing: _Growing
    left: int = 0
    added: dict[int, LiveSubscription] = field(default_factory=dict)
    waiting: dict[int, list[AskedValues] | None] = field(default_factory=dict)
    odd: set[int] = field(default_factory=set)
    kept_odd: _Kept | None = None
    kept_added: _Kept | None = None
    log: list[tuple[int, tuple[LiveSubscription, list[AskedValues] | None] | None]] | None = None

    def put(self, subscription: LiveSubscription, asked: list[AskedValues] | None) -> None:
        """Add a subscription. It waits until `grow` is called. `asked` is None if it has boxes."""
        sid = subscription.sid
        self.added[sid] = subscription
        self.waiting[sid] = asked
        self.kept_added = None
        if self.log is not None:
            self.log.append((sid, (subscription, asked)))

    def grow(self) -> None:
        """Put the subscriptions that wait into the tree, or among the odd ones if the tree can't hold them."""
        for sid, asked in self.waiting.items():
            values = _asked(self.added[sid].boxes or ()) if asked is None else asked
            if values is None or not self.growing.add(sid, values):
                self.odd.add(sid)
                self.kept_odd = None
        self.waiting.clear()

    def take_out(self, sid: int) -> bool:
        """Take a subscription out, wherever it is; False if it is nowhere."""
        if self.log is not None:
            self.log.append((sid, None))
        if self.added.pop(sid, None) is not None:
            self.kept_added = None
            if sid in self.waiting:
                del self.waiting[sid]
            elif not self.growing.remove(sid):
                self.odd.remove(sid)
                self.kept_odd = None
            return True
        if any(base.take_out(sid) for base in self.bases):
            self.left += 1
            return True
        return False

    def odd_content(self) -> _Kept | None:
        if self.odd and self.kept_odd is None:
            self.kept_odd = _Kept(_Content.of(self.added[sid] for sid in self.odd))
        return self.kept_odd if self.odd else None

    def added_content(self) -> _Kept | None:
        if self.added and self.kept_added is None:
            self.kept_added = _Kept(_Content.of(self.added.values()))
        return self.kept_added if self.added else None

    def all_content(self) -> _Content:
        """Everything that is in it now."""
        gone = set[int]().union(*(base.ids[base.gone].tolist() for base in self.bases))
        rows, regions, added = (
            self.content.rows,
            self.content.regions,
            _Content.of(self.added.values()),
        )
        if gone:
            stay = [n for n, sid in enumerate(rows.ids.tolist()) if sid not in gone]
            rows = rows.take(np.array(stay, np.int64))
            regions = {sid: boxes for sid, boxes in regions.items() if sid not in gone}
        return _Content(rows.plus(added.rows), {**regions, **added.regions})


def _asked(boxes: Boxes) -> list[AskedValues] | None:
    """What boxes accept; None if a tree can't hold them."""
    if any(is_hidden(path) for box in boxes for path, _ in box):
        return None
    return [AskedValues(dict(box), _NO_TESTS) for box in boxes]


def _readable(rows: Rows) -> Rows:
    """The subscriptions without those that couldn't be read, which are logged."""
    for sid, error in rows.errors:
        _set_aside(sid, error)
    return replace(rows, errors=())


def _set_aside(sid: int, error: FilterError) -> None:
    _log.warning("subscription %d set aside: %s", sid, error)


def _match_one(
    matcher: Matcher | None, event: Mapping[str, Any], now: int
) -> tuple[set[int], tuple[OperatorFailure, ...]]:
    if matcher is None:
        return set(), ()
    ids, failures = matcher.match_reporting(event, now)
    return set(ids), failures


_NO_ROWS = Rows.of([])
_NO_TESTS: frozenset[Hashable] = frozenset()
