"""Plain conjunctions are put together from atoms; here they are compared with a parse of the whole filter.

The whole parse is the definition. Whatever the spelling, a filter must have the same normal form, its literals the same
bounds, and a refused filter the same message at the same place: alone, in a batch, with a schema and without.
"""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.spellings import SCHEMA, filters

from penstock import FilterError, Schema
from penstock.language.normal import Term
from penstock.language.pools import Column
from penstock.language.shapes import Grouped, Shape, Shapes
from penstock.language.tree import Comparison, Contains, Factor, Pattern

KNOWN = {
    True: Shapes(SCHEMA),
    False: Shapes(None),
}  # for all examples: what is cached must not matter

# ---- what is compared


def form(term: Term, literals_: list[tuple[Column, str]]) -> tuple[Any, ...]:
    """A term with the texts of its literals, whatever place it has in which text."""
    values = [(column.pool, text) for column, text in literals_]
    if isinstance(term, Factor):
        orders = [piece.order for piece in term.pieces]
        return term.attribute, term.negated, term.null, term.total, orders, values
    match term.test:
        case Pattern(attribute, pattern, escape):
            return attribute, pattern, escape, term.holds
        case Contains(attribute):
            return attribute, values, term.holds
        case Comparison(left, order, right):
            return left, order, right, term.holds


def whole(shape: Shape) -> list[list[tuple[Any, ...]]]:
    """The normal form of a filter parsed as a whole."""
    columns = iter(shape.columns)
    result = []
    for conjunction in shape.conjunctions:
        result.append([])
        for term in conjunction:
            count = (
                len(term.pieces) if isinstance(term, Factor) else isinstance(term.test, Contains)
            )
            own = [next(columns) for _ in range(count)]
            result[-1].append(form(term, [(column, column.literal.text) for column in own]))
    return result


def put_together(found: Grouped, number: int) -> list[tuple[Any, ...]]:
    """The conjunction with this number, read from the columns."""
    plain = found.plain
    result = []
    for t in range(plain.start[number], plain.start[number + 1]):
        term = plain.terms[plain.term[t]]
        own = []
        for p in range(plain.piece_start[t], plain.piece_start[t + 1]):
            column = plain.columns[plain.piece[p]]
            pool = found.pools[column.pool]
            texts = [text.decode() for text in pool.lifted.to_pylist()] + pool.texts
            own.append((column, texts[plain.position[p]]))
        if isinstance(term, Factor) and len(own) > len(term.pieces):
            assert len(term.pieces) == 1, "only a single piece repeats"
            term = Factor(**{**fields(term), "pieces": term.pieces * len(own)})
        result.append(form(term, own))
    return result


def fields(factor: Factor) -> dict[str, Any]:
    return {name: getattr(factor, name) for name in factor.__dataclass_fields__}


def alone(shapes: Shapes, text: str) -> Shape | FilterError:
    """The definition: the filter parsed as a whole, and each of its literals read."""
    try:
        shape = shapes.parse(text)
        for column in shape.columns:
            try:
                column.pool.bound(column.literal.text)
            except ValueError as error:
                return FilterError(text, str(error), *column.literal.span)
    except FilterError as error:
        return error
    return shape


def message(error: FilterError) -> tuple[Any, ...]:
    return str(error), error.start, error.end, error.expected, error.found, error.hint


def check_batch(shapes: Shapes, texts: list[str]) -> int:
    """Compare a batch with the definition; how many filters were put together from atoms."""
    found = shapes.read(texts)
    errors = dict(found.errors)
    assert len(errors) == len(found.errors)
    grouped = {row for group in found.groups for row in group.rows}
    plain = {row: number for number, row in enumerate(found.plain.rows.tolist())}
    assert not grouped & set(plain)
    for row, text in enumerate(texts):
        expected = alone(shapes, text)
        if isinstance(expected, FilterError):
            assert message(errors[row]) == message(expected), text
            continue
        assert row not in errors, f"{text!r}: {errors.get(row)}"
        assert (row in plain) or (row in grouped), text
        if row in plain:
            assert [put_together(found, plain[row])] == whole(expected), text
    for key, pool in found.pools.items():
        texts_ = [text.decode() for text in pool.lifted.to_pylist()] + pool.texts
        assert pool.bounds is not None
        assert len(pool.bounds) == len(texts_) == len(pool)
        for position, text in enumerate(texts_):
            try:
                lo, hi, over = key.bound(text)
            except ValueError:
                continue
            assert _value(pool.bounds.lo[position]) == lo, (key, text)
            assert _value(pool.bounds.hi[position]) == hi, (key, text)
            assert (0 if pool.bounds.over is None else pool.bounds.over[position]) == over, (
                key,
                text,
            )
    return len(plain)


def _value(key: Any) -> Any:
    return key.as_py() if isinstance(key, pa.Scalar) else int(key)


# ---- tests


@settings(max_examples=300, deadline=None)
@given(st.lists(filters(), min_size=1, max_size=3), st.booleans())
def test_atoms_and_a_whole_parse_agree(texts: list[str], typed: bool) -> None:
    """Same normal form, same bounds, same errors at the same places."""
    check_batch(KNOWN[typed], texts)


@settings(max_examples=300, deadline=None)
@given(filters(), st.booleans())
def test_one_filter_is_read_as_in_a_batch(text: str, typed: bool) -> None:
    """The way for a single filter ends at the same terms and literals."""
    shapes = KNOWN[typed]
    expected = alone(shapes, text)
    try:
        found: Any = shapes.one(text)
    except FilterError as error:
        found = error
    if isinstance(found, FilterError):
        assert isinstance(expected, FilterError)
        assert message(found) == message(expected)
    elif isinstance(expected, Shape):
        terms = [[form(term, own) for term, own in conjunction] for conjunction in found]
        for one, other in zip(terms, whole(expected), strict=True):
            assert sorted(one, key=repr) == sorted(other, key=repr)


PLAIN = [
    "a = 1",
    "a=1 AND b=2",
    "A > 1 and d <= 2.5 And s <> 'it''s' aNd note = ''",
    "a BETWEEN 1 AND 2 AND b = 3 AND a BETWEEN -5 and +7",
    "s = 'x AND y' AND note = ' AND ' AND \"odd name\" = 1",
    "a IN (1) AND b IN (1, 2,3 , 4) AND c IN (-1.5, - 2.5) AND w IN (1, 2.5, 1e3)",
    "a NOT IN (1, 2) AND s not in ('x', 'y')",
    "5 < a AND 1e3 >= d",
    "s LIKE 'x%' AND note LIKE 'x' AND note NOT LIKE '%x%'",
    "flag AND items IS NULL AND o.p IS NOT NULL AND flag IS NOT TRUE",
    "day > DATE '2024-01-01' AND at BETWEEN '2024-01-01' AND TIMESTAMP '2024-01-01 10:00'",
    "array_contains(items, 5) AND LIST_HAS(tags, 'x')",
    "a IS DISTINCT FROM 5 AND b IS NOT DISTINCT FROM 6",
    "(a = 1) AND ( b IN (1, 2) )",
    "a = b AND d < c",
    "o.And = 'x' AND o.in.like > 1 AND interval = 5 AND \"order\" = 1 AND größe > 1",
    "a=-1 AND b<+2",
    "a = 1 AND a = 1 AND a <> 2 AND a = 1",
]
NOT_PLAIN = [
    "a = 1 OR b = 2",
    "(a = 1 AND b = 2)",
    "NOT a = 1 AND b = 2",
    "a = 1 AND NOT b = 2",
    "a NOT BETWEEN 1 AND 2",
    "a = 1 -- AND b = 2",
    "a /* x */ = 1",
    "a = NULL AND b = 1",
    "a IN (1, NULL)",
    "TRUE AND a = 1",
    "a = .5",
    "a = 5.",
    "s = E'x'",
    "day = DATE'2024-01-01'",
    "s LIKE 'x!%' ESCAPE '!'",
    "a = 1AND b = 2",
    "a = 1 AND",
    "AND a = 1",
    "a = 1 AND AND b = 2",
    "a BETWEEN 1 AND 2 AND",
    "a BETWEEN 1",
    "a = 1; b = 2",
    "nope = 1",
    "a = 'x'",
]


@pytest.mark.parametrize("text", PLAIN)
def test_simple_conjunctions_are_plain(text: str) -> None:
    """What people write most is read atom by atom, and right."""
    assert check_batch(Shapes(SCHEMA), [text]) == 1


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_all_else_is_left_to_the_parser(text: str) -> None:
    """Whatever might mean something else in company is parsed in company."""
    assert check_batch(Shapes(SCHEMA), [text]) == 0


def test_without_a_schema_an_attribute_has_one_type() -> None:
    """Atoms that imply different types of one attribute, or a value and a struct, are read together."""
    for text in (
        "a = 1 AND a = 'x'",
        "a = 1 AND a.b = 2",
        "d = '2024-01-01' AND d < DATE '2024-02-01'",
        "a < b AND a = 'x'",
    ):
        assert check_batch(Shapes(None), [text]) == 0
    assert check_batch(Shapes(None), ["a = 1 AND A = 'x' AND b.c = 1 AND b.d = 'x'"]) == 1


def test_every_combination_of_attributes_costs_no_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand filters with a thousand shapes parse as many atoms as there are attributes and operators."""
    from penstock.language import atoms

    parsed = []
    read = atoms.read_atom
    monkeypatch.setattr(
        atoms,
        "read_atom",
        lambda skeleton, schema: parsed.append(skeleton) or read(skeleton, schema),
    )
    rng = random.Random(1)
    names = [f"n{i}" for i in range(12)]
    shapes = Shapes(Schema.of(dict.fromkeys(names, "double")))
    texts = [
        " AND ".join(f"{n} {rng.choice('<>=')} {rng.random():.3f}" for n in rng.sample(names, 5))
        for _ in range(1_000)
    ]
    found = shapes.read(texts)
    assert len(found.plain) == 1_000
    assert len(parsed) <= 3 * len(names)
    assert len(found.plain.terms) <= 3 * len(names)


def test_rows_are_kept_apart() -> None:
    """Plain, grouped, refused and missing filters in one batch, from a list and from Arrow, over several chunks."""
    texts: list[str | None] = [
        "a = 1",
        "a = 1 OR b = 2",
        "a = 'x'",
        None,
        "day = 'soon'",
        "s = 'x' AND b > 2",
    ] * 2_000
    texts += ["s = '" + "y" * 300_000 + "'"] * 2
    for source in (texts, pa.array(texts), pa.chunked_array([texts[:7], texts[7:]])):
        found = Shapes(SCHEMA).read(source)
        assert found.plain.rows.tolist() == [
            n for n, t in enumerate(texts) if n % 6 in (0, 4, 5) or n >= 12_000
        ]
        assert [group.rows for group in found.groups] == [list(range(1, 12_000, 6))]
        assert [row for row, _ in found.errors] == [n for n in range(12_000) if n % 6 in (2, 3, 4)]
        assert found.errors[2][1].start == 6


def test_limits_are_those_of_a_whole_parse() -> None:
    """Ten thousand ANDs are right and one more is refused, BETWEEN's own among them; so for literals in lists."""
    ands = " AND ".join(["flag"] * 10_001)
    betweens = " AND ".join(["a BETWEEN 1 AND 2"] * 5_000)
    listed = "a IN (" + ", ".join(["1"] * 50_000) + ")"
    found = Shapes(SCHEMA).read(
        [ands, ands + " AND flag", betweens, betweens + " AND flag AND flag", f"{listed} AND {listed}",
         f"{listed} AND {listed} AND a IN (1)"]
    )  # fmt: skip
    assert found.plain.rows.tolist() == [0, 2, 4]
    assert [(row, error.reason.split(":")[0]) for row, error in found.errors] == [
        (1, "too many conditions"),
        (3, "too many conditions"),
        (5, "too many literals in IN lists"),
    ]
    assert np.diff(found.plain.start).tolist() == [10_001, 10_000, 2]


def test_a_word_is_lifted_in_any_case() -> None:
    """An exact pattern and a prefix are different predicates, however LIKE is written."""
    texts = ["s LiKe 'x%' OR a = 1", "s LiKe 'x' OR a = 1"]
    found = Shapes(SCHEMA).read(texts)
    orders = [g.shape.conjunctions[0][0].pieces[0].order for g in found.groups]
    assert sorted(orders) == ["=", "prefix"]


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("form", ["s = '{}' AND a = 1", "s = '{}' OR a = 1"])
def test_what_is_no_text_spoils_only_its_own_filter(bad: str, form: str) -> None:
    """A NUL or half a surrogate pair in a literal is refused, and nobody else is, whichever comes first."""
    texts = [form.format(bad), form.format("x")]
    for ordered in (texts, texts[::-1]):
        assert [row for row, _ in Shapes(SCHEMA).read(ordered).errors] == [ordered.index(texts[0])]
