"""Regions -> plan: subscriptions that come as boxes of values instead of filter text, as brokers send them.

A merger has no text. What it has is a union of boxes, for each attribute intervals of keys (`language.values`), and the
names of hidden attributes (`language.hidden_attributes`). Keys are what constants of filters become as well, so boxes
become cells directly: the ends of all intervals cut each attribute, and an interval [a, b) is the cells from that of a
to the one before that of b. The rest is done as in `compile`.

Operators aren't called here: a broker on the way takes their tests for true. The broker that has the filter's text
calls them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int32s, Int64s
from penstock.language.calls import Path
from penstock.language.computed import find_attribute
from penstock.language.expressions import COMPUTED
from penstock.language.hidden_attributes import (
    FAILS,
    HIDDEN,
    HOLDS,
    ORDER,
    OUTCOMES,
    TEST,
    MemberAsked,
    OrderAsked,
    TextAsked,
    read_hidden,
)
from penstock.language.literals import Bounds
from penstock.language.patterns import TextTest
from penstock.language.schema import Attribute, Schema
from penstock.language.types import Array, Scalar
from penstock.language.values import NOT_NULL, Values
from penstock.matching.canonical import canonical
from penstock.matching.derived import AttributeTest, DerivedAttributes
from penstock.matching.domains import ByteStrings, Cuts, Domain, build_domain, has_text_keys
from penstock.matching.filled_cells import Snap, filled_cells
from penstock.matching.kernels import FALSE, TRUE
from penstock.matching.plan import Plan
from penstock.matching.sharing import CellTests, share
from penstock.matching.subscription_rows import FOREVER
from penstock.matching.text_patterns import TextPatterns

AskedBox = tuple[tuple[Path, Values], ...]
"""Values for some attributes, ascending by path: a box of `covering.regions`."""
Boxes = tuple[AskedBox, ...]
Asked = tuple[Path, Values]

_TRUTHS = {HOLDS: TRUE, FAILS: FALSE}
_ORDERS = {values: (order, TRUE) for order, values in OUTCOMES.items()} | {
    OUTCOMES["="].complement().intersection(NOT_NULL): ("=", FALSE)
}


def is_hidden(path: Path) -> bool:
    """Whether an attribute stands for a test or a call, and is neither one of the event's nor computed."""
    return path[0].startswith(HIDDEN) and path[0] != COMPUTED


def compile_boxes(regions: Mapping[int, Boxes], schema: Schema) -> Plan:
    """The plan of regions by id.

    >>> above = Values(((6, None),))
    >>> compile_boxes({7: (((("price",), above),),)}, Schema.of({"price": "int"})).ids
    array([7])
    """
    ids = np.array(sorted(regions), np.int64)
    found = _Found(schema)
    for position, number in enumerate(ids.tolist()):
        for box in regions[number]:
            found.add(position, box)
    return found.plan(ids)


class _Found:
    """The conjunctions of all boxes, in the order they come: each test with the values, or the truth, that it wants."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._owners: list[int] = []
        self._conjunction: list[int] = []
        self._attribute: list[int] = []  # derived ones from `_DERIVED` on
        self._wanted: list[int] = []  # the number of the values, or a truth
        self._paths: dict[Path, int] = {}
        self._values: list[dict[Values, int]] = []  # by attribute, numbered
        self._plain: dict[AttributeTest, int] = {}
        self._texts: dict[Path, int] = {}
        self._patterns: dict[tuple[int, TextTest], int] = {}
        self._members: dict[MemberAsked, int] = {}

    def add(self, owner: int, box: AskedBox) -> None:
        """One more box of an owner."""
        conjunction = len(self._owners)
        for path, values in box:
            if path in self._paths or not is_hidden(path):
                attribute = self._plain_attribute(path)
                known = self._values[attribute]
                self._put(conjunction, (0, attribute), known.setdefault(values, len(known)))
            elif path[0] in (TEST, ORDER) and values != NOT_NULL:
                self._put(conjunction, *self._derived(path, values))
        self._owners.append(owner)

    def _put(self, conjunction: int, attribute: tuple[int, int], wanted: int) -> None:
        kind, number = attribute
        self._conjunction.append(conjunction)
        self._attribute.append(kind << _SHIFT | number)
        self._wanted.append(wanted)

    def _plain_attribute(self, path: Path) -> int:
        number = self._paths.setdefault(path, len(self._values))
        if number == len(self._values):
            self._values.append({})
        return number

    def _derived(self, path: Path, values: Values) -> tuple[tuple[int, int], int]:
        """The kind and number of a derived attribute, and the truth that it must have."""
        asked = read_hidden(path)
        match asked:
            case OrderAsked(left, right):
                order, truth = _ORDERS[values]
                test = AttributeTest(self._found(left), order, self._found(right))
                return (1, self._plain.setdefault(test, len(self._plain))), truth
            case TextAsked(of, text):
                attribute = self._texts.setdefault(of, len(self._texts))
                number = self._patterns.setdefault((attribute, text), len(self._patterns))
                return (2, number), _TRUTHS[values]
            case MemberAsked():
                return (3, self._members.setdefault(asked, len(self._members))), _TRUTHS[values]

    def _found(self, path: Path) -> Attribute:
        found = find_attribute(self._schema, path)
        if found is None:
            raise ValueError(f"the schema has no attribute {'.'.join(path)!r}")
        return found

    # --- the plan -------------------------------------------------------------------------------

    def plan(self, ids: Int64s) -> Plan:
        domains = [self._domain(path, self._values[n]) for path, n in self._paths.items()]
        derived = self._derived_attributes()
        kinds = (len(domains), len(self._plain), len(self._patterns), len(self._members))
        first = np.array([0, *np.cumsum(kinds)[:-1]], np.int64)
        coded = np.array(self._attribute, np.int64)
        attribute = first[coded >> _SHIFT] + (coded & ((1 << _SHIFT) - 1))
        tests = CellTests(
            np.array(self._conjunction, np.int64), attribute, *self._ranges(domains, coded)
        )
        truths = np.ones(TRUE + 1, np.bool_)
        snap = Snap([*map(filled_cells, domains), *[truths] * len(derived)])
        tests, owners = canonical(tests, np.array(self._owners, np.int64), snap)
        shared = share(tests, owners, snap.top.astype(np.int64), derived_from=len(domains))
        nobody = ByteStrings(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.uint8))
        return Plan(
            schema=self._schema,
            domains=tuple(domains),
            cuts=Cuts.of(domains),
            derived=derived,
            ids=ids,
            expires=np.full(len(ids), FOREVER, np.int64),
            subscribers=nobody,
            filters=nobody,
            index={},
            operators=None,
            **vars(shared),
        )

    def _ranges(self, domains: list[Domain], coded: Int64s) -> tuple[Int64s, Int32s, Int32s]:
        """How many ranges of cells each test has, and the ends of all of them.

        Ranges are made once for each of the values of an attribute, and then copied to the tests that want them.
        """
        cells = [[(truth, truth)] for truth in range(TRUE + 1)]
        first = np.zeros(len(domains) + 1, np.int64)
        for n, domain in enumerate(domains):
            first[n] = len(cells)
            cells += [_cells(domain, values) for values in self._values[n]]
        ends = np.array([one for several in cells for one in several], np.int32).reshape(-1, 2)
        counts = np.array([len(several) for several in cells], np.int64)
        is_plain = coded >> _SHIFT == 0
        place = np.array(self._wanted, np.int64) + first[np.where(is_plain, coded, -1)]
        mine = counts[place]
        shift = (np.cumsum(counts) - counts)[place] - (np.cumsum(mine) - mine)
        chosen = ends[np.repeat(shift, mine) + np.arange(mine.sum())]
        return mine, np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])

    def _domain(self, path: Path, wanted: Iterable[Values]) -> Domain:
        type_ = self._found(path).type
        keys = {
            key for values in wanted for ends in values.intervals for key in ends if key is not None
        }
        return build_domain(path, type_, [_bounds(sorted(keys), has_text_keys(type_))])

    def _derived_attributes(self) -> DerivedAttributes:
        by_path: dict[Path, list[MemberAsked]] = {}
        for asked in self._members:
            by_path.setdefault(asked.path, []).append(asked)
        elements: list[Domain] = []
        places: dict[MemberAsked, tuple[int, int, int]] = {}
        for number, (path, several) in enumerate(by_path.items()):
            type_ = self._found(path).type
            if not isinstance(type_, Array):
                raise ValueError(f"{'.'.join(path)!r} is no array")
            is_text = has_text_keys(type_.element)
            over = np.array([asked.over for asked in several], np.int8)
            lo = _bounds([asked.lo for asked in several], is_text).lo
            hi = _bounds([asked.hi for asked in several], is_text).lo
            bounds = Bounds(lo, hi, over if over.any() else None)
            domain = build_domain(path, type_.element, [bounds])
            elements.append(domain)
            for asked, low, high in zip(several, *domain.bound_cells(bounds), strict=True):
                places[asked] = number, int(low), int(high)
        rows = np.array([places[asked] for asked in self._members], np.int32).reshape(-1, 3)
        return DerivedAttributes(
            tuple(self._plain),
            TextPatterns.of(list(self._texts), list(self._patterns)),
            tuple(elements),
            *(np.ascontiguousarray(rows[:, n]) for n in range(3)),
        )


_SHIFT = 40  # of an attribute's kind: plain, order, pattern, membership


def _bounds(keys: Sequence[int | bytes], is_text: bool) -> Bounds:
    if is_text:
        column = pa.array(keys, pa.large_binary())
        return Bounds(column, column)
    numbers = np.array(keys, np.int64)
    return Bounds(numbers, numbers)


def _cells(domain: Domain, values: Values) -> list[tuple[int, int]]:
    """Values as ranges of cells, ascending; what touches is one range."""
    keys = [key for ends in values.intervals for key in ends if key is not None]
    if keys and not isinstance(domain.type, Scalar):
        raise ValueError(f"{domain.name!r} has no values to compare")
    points = iter(domain.bound_cells(_bounds(keys, has_text_keys(domain.type)))[0].tolist())
    found = [(0, 0)] if values.null else []
    for start, end in values.intervals:
        low = 1 if start is None else next(points)
        found.append((low, domain.last if end is None else next(points) - 1))
    joined = found[:1]
    for before, after in pairwise(found):
        if before[1] + 1 == after[0]:
            joined[-1] = joined[-1][0], after[1]
        else:
            joined.append(after)
    return joined
