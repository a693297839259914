"""Redundant parentheses, white space, comments and the case of keywords change nothing.

Not what is accepted, with a schema or without; not the schema that a filter implies, nor its normal form; not what
matches, alone or in bulk. DuckDB agrees about every spelling.
"""

import random

import pyarrow as pa
import pytest
from tests.language.readings import alone, check_batch, check_one, whole
from tests.sizes import SEED, SPELLINGS

from penstock import FilterError, Schema
from penstock.language.infer import infer
from penstock.language.shapes import Shapes
from penstock.matching import Matcher

from .events import SCHEMA, random_events
from .filters import RandomFilters
from .oracle import Oracle
from .test_engines import NOW, compiled

WAYS = 4


@pytest.fixture(scope="module")
def families() -> list[list[str]]:
    """Filters, each in several spellings."""
    rng = random.Random(SEED)
    return [RandomFilters.spellings(rng, WAYS) for _ in range(SPELLINGS)]


def implied(text: str) -> str:
    """The schema that a filter implies, or why there is none."""
    try:
        return str(infer(text))
    except FilterError as error:
        return error.reason


@pytest.mark.parametrize("schema", [Schema.of(SCHEMA), None], ids=["schema", "none"])
def test_every_spelling_is_accepted_and_means_the_same(
    families: list[list[str]], schema: Schema | None
) -> None:
    """The same implied schema and the same normal form; read alone, as one, and in bulk."""
    shapes = Shapes(schema)
    accepted = 0
    for texts in families:
        assert len({implied(text) for text in texts}) == 1, texts
        found = [alone(shapes, text) for text in texts]
        if isinstance(found[0], FilterError):
            assert {getattr(f, "reason", None) for f in found} == {found[0].reason}, texts
            continue
        accepted += 1
        forms = [f if isinstance(f, FilterError) else whole(f) for f in found]
        assert all(form == forms[0] for form in forms), texts
        for text in texts:
            check_one(shapes, text)
    assert accepted == len(families) if schema is not None else accepted > len(families) / 2
    check_batch(shapes, [text for texts in families for text in texts])


def test_every_spelling_matches_what_duckdb_keeps(families: list[list[str]]) -> None:
    """All of them in one plan, event by event."""
    events: pa.Table = random_events(random.Random(SEED), 40)[0]
    filters = [text for texts in families for text in texts]
    truth = Oracle(events).truth(filters)
    (batch,) = events.combine_chunks().to_batches()
    lists = Matcher(compiled(filters)).match_batch(batch, now=NOW).to_pylist()
    found: list[list[int]] = [[] for _ in filters]
    for row, ids in enumerate(lists):
        for number in ids:
            found[number].append(row)
    wrong = [
        text
        for number, text in enumerate(filters)
        if number not in truth.refused and found[number] != truth.matches(number)
    ]
    assert not wrong, f"seed {SEED}: {sorted(wrong, key=len)[:5]}"


@pytest.mark.parametrize("schema", [{"flag": "boolean", "o": {"x": "int"}}, None])
@pytest.mark.parametrize(
    ("plain", "wrapped"),
    [
        ("flag", "(flag)"),
        ("NOT flag", "NOT (flag)"),
        ("flag IS NOT TRUE", "((flag)) IS NOT TRUE"),
        ("flag = TRUE", "(flag) = (TRUE)"),
        ("o.x = 1", "(o).x = (1)"),
        ("o.x IS NULL", "((o).x) IS NULL"),
        ("o.x BETWEEN 1 AND 5", "((o.x) BETWEEN (1) AND ((5)))"),
        ("o.x IN (1, 2)", "(o.x) IN ((1), (2))"),
        ("o.x = -5 OR NOT flag AND o.x > 1", "(((o.x) = -(5)) OR ((NOT (flag)) AND ((o.x) > 1)))"),
    ],
)
def test_parentheses_around_anything(schema: dict | None, plain: str, wrapped: str) -> None:
    """Names, literals, conditions: what stands in them is what it is without them."""
    shapes = Shapes(None if schema is None else Schema.of(schema))
    assert implied(plain) == implied(wrapped)
    assert whole(shapes.parse(plain)) == whole(shapes.parse(wrapped))
    check_batch(shapes, [wrapped])
