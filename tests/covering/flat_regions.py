"""Small random regions, and covering by definition: what the indexes and the frontier are compared with."""

import itertools

import hypothesis.strategies as st

from penstock.covering.regions import Region
from penstock.language.values import Values

# Two attributes of integers, one of strings: as many values as there are events to try.
NUMBERS = [None, 0, 1, 2, 3, 4]
TEXTS = [None, b"", b"a", b"a\0", b"b"]
DOMAINS = {("i",): NUMBERS, ("j",): NUMBERS, ("s",): TEXTS}
EVENTS = list(itertools.product(*DOMAINS.values()))


def has(values, value):
    """Whether a value is among some values."""
    if value is None:
        return values.null
    return any((a is None or a <= value) and (b is None or value < b) for a, b in values.intervals)


def matches(region, event):
    """Whether an event is in a region."""
    found = dict(zip(DOMAINS, event, strict=True))
    return any(all(has(values, found[path]) for path, values in box) for box in region.boxes)


def values_include(outer, inner):
    """Whether all of some values are among others, by their intervals."""

    def within(a, b):
        (first, past), (low, high) = a, b
        begins = first is None or (low is not None and first <= low)
        ends = past is None or (high is not None and high <= past)
        return begins and ends

    intervals = all(any(within(a, b) for a in outer.intervals) for b in inner.intervals)
    return intervals and outer.null >= inner.null


def box_includes(outer, inner):
    """Whether a box lies in another."""
    inner = dict(inner)
    return all(path in inner and values_include(v, inner[path]) for path, v in outer)


def includes(outer, inner):
    """Whether each box of a region lies in one of another's."""
    return all(any(box_includes(a, b) for a in outer.boxes) for b in inner.boxes)


def frontier_by_definition(regions):
    """Of regions in the order in which they came, the places of those that no other covers."""
    return [
        n
        for n, r in enumerate(regions)
        if not any(
            includes(s, r) and (m < n or not includes(r, s))
            for m, s in enumerate(regions)
            if m != n
        )
    ]


@st.composite
def values(draw, keys):
    """Intervals of some keys, NULL, or both; not nothing and not everything."""
    cuts = sorted(draw(st.sets(st.sampled_from(keys), max_size=4)))
    ends = [None, *cuts, None]
    chosen = [draw(st.booleans()) for _ in ends[1:]]
    intervals = []
    for (a, b), in_ in zip(itertools.pairwise(ends), chosen, strict=True):
        if not in_:
            continue
        if intervals and intervals[-1][1] == a and a is not None:
            intervals[-1] = intervals[-1][0], b
        else:
            intervals.append((a, b))
    null = draw(st.booleans())
    found = Values(tuple(intervals), null)
    if found in (Values(()), Values(((None, None),), null=True)):
        return Values(((None, None),))
    return found


CONSTANTS = {
    ("i",): [1, 2, 3, 4],
    ("j",): [1, 2, 3, 4],
    ("s",): [b"a", b"a\0", b"b", b"b\0"],
}


@st.composite
def boxes(draw):
    """Tests of some of the attributes."""
    paths = draw(st.sets(st.sampled_from(list(DOMAINS))))
    return tuple((path, draw(values(CONSTANTS[path]))) for path in sorted(paths))


def absorbed(found):
    """A region of some boxes, without those that lie in others."""
    kept = []
    for n, box in enumerate(found):
        others = found[:n] + found[n + 1 :]
        if not any(
            box_includes(o, box) and (not box_includes(box, o) or m < n)
            for m, o in zip([m for m in range(len(found)) if m != n], others, strict=True)
        ):
            kept.append(box)
    return Region(tuple(kept))


SINGLE = boxes().map(lambda box: Region((box,)))
REGIONS = st.one_of(SINGLE, SINGLE, SINGLE, st.lists(boxes(), max_size=3).map(absorbed))
