"""Regions of random filters over every type, against what the naive matcher matches."""

import functools
import itertools
import random

import numpy as np
from tests.covering.region_algebra import covers, equal, intersection, union
from tests.covering.small_world import matched
from tests.differential.events import SCHEMA, random_events
from tests.differential.filters import RandomFilters

from penstock.base.columns import descend
from penstock.covering.reading import region
from penstock.covering.regions import HIDDEN, Region, is_disjoint
from penstock.language import Schema
from penstock.language.calls import Path
from penstock.language.computed import ComputedColumns, find_attribute
from penstock.language.expressions import COMPUTED
from penstock.language.types import Scalar
from penstock.matching.domains import ByteStrings, key_column

FILTERS, EVENTS, PREDICATES = 450, 300, 300
TYPES = Schema.of(SCHEMA)


@functools.cache
def world() -> tuple[list[str], list[Region], np.ndarray, dict[Path, list]]:
    """Filters, their regions, which events each matches, and the keys of the events."""
    rng = random.Random(5)
    table, _ = random_events(rng, EVENTS)
    batch = table.combine_chunks().to_batches()[0]
    texts = [RandomFilters(rng, leaves=1).filter() for _ in range(PREDICATES)]
    texts += [RandomFilters(rng).filter() for _ in range(FILTERS - PREDICATES)]
    regions = [region(t, TYPES) for t in texts]
    asked = {path for found in regions for box in found.boxes for path, _ in box}
    computed = {path for path in asked if path[0] == COMPUTED}
    keys = {path: event_keys(batch, path) for path in paths() | computed}
    return texts, regions, matched(texts, batch, TYPES), keys


def paths() -> set[Path]:
    return {a.path[:n] for a in TYPES.attributes() for n in range(1, len(a.path) + 1)}


def event_keys(batch, path: Path) -> list:
    """The key of each event's value at a path; of what has no keys, any but None."""
    column = descend(ComputedColumns(TYPES, [path]).add_to(batch, 0), path)
    type_ = find_attribute(TYPES, path).type
    valid = column.is_valid().to_pylist()
    if not isinstance(type_, Scalar):
        return [0 if one else None for one in valid]
    found, _ = key_column(column, type_, path[-1])
    if isinstance(found, ByteStrings):
        data, ends = found.data.tobytes(), found.offsets.tolist()
        found = [data[a:b] for a, b in itertools.pairwise(ends)]
    return [key if one else None for key, one in zip(list(found), valid, strict=True)]


def within(found: Region, keys: dict[Path, list]) -> np.ndarray:
    """Which events are in a region, but for what hidden attributes ask."""
    some = np.zeros(EVENTS, bool)
    for box in found.boxes:
        every = np.ones(EVENTS, bool)
        for path, values in box:
            if path in keys:
                every &= [values.contains(_plain(key)) for key in keys[path]]
        some |= every
    return some


def _plain(key):
    return int(key) if isinstance(key, np.integer) else key


def is_plain(found: Region) -> bool:
    paths = {path for box in found.boxes for path, _ in box}
    return not any(path[0].startswith(HIDDEN) and path[0] != COMPUTED for path in paths)


def test_a_region_has_the_events_that_its_filter_matches():
    texts, regions, truth, keys = world()
    for text, found, events in zip(texts, regions, truth, strict=True):
        rough = within(found, keys)
        assert (rough | ~events).all(), text
        assert not is_plain(found) or (rough == events).all(), text
    assert sum(map(is_plain, regions)) > FILTERS / 2


def test_what_covering_claims_holds_for_every_event():
    texts, regions, truth, _ = world()
    claims = 0
    for a, b in itertools.permutations(range(FILTERS), 2):
        if not regions[b].boxes:
            assert not truth[b].any()
        elif covers(regions[a], regions[b]):
            claims += 1
            assert not (truth[b] & ~truth[a]).any(), (texts[a], texts[b])
        if is_disjoint(regions[a], regions[b]):
            assert not (truth[b] & truth[a]).any()
    assert claims > FILTERS


def test_logic_is_algebra():
    texts, regions, *_ = world()
    for n in range(0, FILTERS, 2):
        (f, g), (a, b) = texts[n : n + 2], regions[n : n + 2]
        either, both = region(f"({f}\n) OR ({g}\n)", TYPES), region(f"({f}\n) AND ({g}\n)", TYPES)
        assert equal(either, union(a, b))
        assert equal(both, intersection(a, b))
        assert covers(a, both) is True
        assert covers(either, b) is True
        assert is_disjoint(a, region(f"NOT ({f}\n)", TYPES))
        assert equal(a, region(f"NOT (NOT ({f}\n))", TYPES))
