"""A world so small that all its events can be listed: what a filter matches there is what it matches anywhere.

Its constants are few, and between any two neighbouring ones of them there is an event.
"""

import itertools
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa

from penstock.covering.reading import region
from penstock.covering.regions import Region
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan

SCHEMA = Schema.of({"i": "int", "j": "int", "b": "boolean", "s": "string"})
VALUES = {
    "i": [None, -1, 0, 1, 2, 3, 4, 5],
    "j": [None, -1, 0, 1, 2],
    "b": [None, False, True],
    "s": [None, "", "\0", "a", "a\0", "ab", "ab\0", "ac", "b", "b\0", "c"],
}
EVENTS = [dict(zip(VALUES, event, strict=True)) for event in itertools.product(*VALUES.values())]
BATCH = pa.RecordBatch.from_pylist(EVENTS, SCHEMA.to_arrow())


CODES = {name: np.array([v.index(e[name]) for e in EVENTS]) for name, v in VALUES.items()}


def key(value: object) -> int | bytes | None:
    if isinstance(value, str):
        return value.encode()
    return None if value is None else int(value)


def inside(region: Region) -> np.ndarray:
    """Which events are in a region, by definition: in some box, and of each attribute there one of the values."""
    found = np.zeros(len(EVENTS), bool)
    for box in region.boxes:
        every = np.ones(len(EVENTS), bool)
        for (name,), values in box:
            holds = np.array([values.contains(key(value)) for value in VALUES[name]])
            every &= holds[CODES[name]]
        found |= every
    return found


def matched(texts: Sequence[str], batch=BATCH, schema=SCHEMA) -> np.ndarray:
    """Which events each filter matches, by the naive matcher: a row per filter."""
    rows = Rows.of([(n, "", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, schema)
    assert not errors
    found = np.zeros((len(texts), batch.num_rows), bool)
    for event, ids in enumerate(Matcher(plan, "naive").match_batch(batch).to_pylist()):
        found[ids, event] = True
    return found


def match_all(texts: Sequence[str]) -> list[tuple[Region, np.ndarray]]:
    """Each filter as a region, and which events it matches."""
    return list(zip(regions_of(texts), matched(texts), strict=True))


def regions_of(texts: Sequence[str]) -> list[Region]:
    return [region(text, SCHEMA) for text in texts]


# --- filters -----------------------------------------------------------------------------------

ORDER = st.sampled_from(
    ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
)
NOT = st.sampled_from(["", "NOT "])
LITERALS = {
    "i": st.sampled_from(["0", "1", "2", "3", "4", "1.5", "3.0", "2e0"]),
    "j": st.sampled_from(["0", "1", "0.5"]),
    "s": st.sampled_from(["''", "'a'", "'ab'", "'b'"]),
    "b": st.sampled_from(["TRUE", "FALSE"]),
}


@st.composite
def predicates(draw) -> str:
    name = draw(st.sampled_from("iijbss"))
    literal = LITERALS[name]
    match draw(st.integers(0, 5)):
        case 0:
            return f"{name} IS {draw(NOT)}NULL"
        case 1:
            return f"{name} {draw(NOT)}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
        case 2 if name != "b":
            return f"{name} {draw(NOT)}BETWEEN {draw(literal)} AND {draw(literal)}"
        case 2:
            return f"b IS {draw(NOT)}{draw(literal)}"
        case 3 if name == "s":
            return f"s {draw(NOT)}LIKE '{draw(st.sampled_from(['a%', 'ab%', 'b%', '%', 'a']))}'"
    return f"{name} {draw(ORDER)} {draw(literal)}"


FILTERS = st.recursive(
    predicates(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) OR ({two[1]})"),
        inner.map("NOT ({})".format),
    ),
    max_leaves=6,
)
