"""Plain conjunctions are put together from atoms; here they are compared with a parse of the whole filter.

The whole parse is the definition. Whatever the spelling, a filter must have the same normal form, its literals the same
bounds, and a refused filter the same message at the same place: alone, in a batch, with a schema and without.
"""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.readings import check_batch, check_one
from tests.language.spellings import SCHEMA, filters

from penstock import Schema
from penstock.language.shapes import Shapes

KNOWN = {
    True: Shapes(SCHEMA),
    False: Shapes(None),
}  # for all examples: what is cached must not matter


@settings(max_examples=300, deadline=None)
@given(st.lists(filters(), min_size=1, max_size=3), st.booleans())
def test_atoms_and_a_whole_parse_agree(texts: list[str], typed: bool) -> None:
    """Same normal form, same bounds, same errors at the same places."""
    check_batch(KNOWN[typed], texts)


@settings(max_examples=300, deadline=None)
@given(filters(), st.booleans())
def test_one_filter_is_read_as_in_a_batch(text: str, typed: bool) -> None:
    """The way for a single filter ends at the same terms and literals."""
    check_one(KNOWN[typed], text)


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
        lambda skeleton, *under: parsed.append(skeleton) or read(skeleton, *under),
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


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["schema", "none"])
@pytest.mark.parametrize("between", ["", " ", "(", "\n( (", "+ "])
def test_patterns_of_two_kinds_never_share_a_parse(schema: Schema | None, between: str) -> None:
    """Whatever stands between LIKE and its pattern: `'x%'` is a prefix, and `'x'` is all of a string."""
    closing = ")" * between.count("(")
    texts = [f"s LIKE{between}'{p}'{closing} OR a = 1" for p in ("x%", "x", "x%y", "y%", "y")]
    shapes = Shapes(schema)
    check_batch(shapes, texts)
    for text in texts:
        check_one(shapes, text)
    found = shapes.read(texts)
    rows = sorted(group.rows for group in found.groups)
    assert all({0, 1, 2} & set(own) == {own[0]} for own in rows if own[0] < 3)


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("form", ["s = '{}' AND a = 1", "s = '{}' OR a = 1"])
def test_what_is_no_text_spoils_only_its_own_filter(bad: str, form: str) -> None:
    """A NUL or half a surrogate pair in a literal is refused, and nobody else is, whichever comes first."""
    texts = [form.format(bad), form.format("x")]
    for ordered in (texts, texts[::-1]):
        assert [row for row, _ in Shapes(SCHEMA).read(ordered).errors] == [ordered.index(texts[0])]
