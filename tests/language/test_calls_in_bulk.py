"""Filters with calls in bulk and one by one: a parse of the whole filter is the definition, as in `test_plain`."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language.readings import check_batch, check_one
from tests.language.scenes import OPERATORS, SCHEMA

from penstock.language import atoms
from penstock.language.shapes import Shapes

KNOWN = {True: Shapes(SCHEMA), False: Shapes(None, OPERATORS)}  # for all examples

GAPS = st.sampled_from(["", "", " ", "  ", "\n"])
ATTRIBUTES = [
    "image",
    "place",
    "price",
    "volume",
    "listed",
    "time",
    "halted",
    "symbol",
    "place.city",
    '"a.b"',
    "tags",
]
LITERALS = ["'x'", "'it''s'", "''", "'a, b'", "'(p)'", "'\"'", "5", "-5", "- 7", "+3", "2.0", "2.5", "1e2",
            "'2024-01-31'", "DATE '2024-01-31'", "TIMESTAMP '2024-01-31 10:00'", "TRUE", "NULL", "'a\x02b'", "'soon'",
            "1e999", "'é'", ".5", "'x' 'y'", "99999999999999999999"]  # fmt: skip
GOOD = {
    "in_area": [["place"], ["'x'", "'it''s'", "'k1'", "'a, (b'", "symbol"]],
    "crowd": [["image"]],
    "label": [["image"]],
    "near": [["place"], ["5", "-2.5", "1e2", "price", "- 7", "NULL"]],
    "seen": [["'2024-01-31'", "DATE '2024-02-01'", "listed", "time"], ["5", "2.0", "volume"]],
    "paid": [["2.5", "price", "1e2"]],
    "odd": [["tags", "'5'", "5", "5.0", "TRUE", '"a.b"', "DATE '2024-01-31'"]],
    "boats": [["image"], ["3", ":y"]],
    "p": [["3", "4", ":y", ":x"], ["3", "-1"]],
}
TESTS = {
    "crowd": ["> 5", ">= 2.5", "IN (1, 2)", "IN (1, NULL)", "BETWEEN 5 AND 10", "IS NULL", "IS NOT NULL", "= 'x'",
              "NOT IN (3)", "> price", "IS DISTINCT FROM 5", "<> -5", "> 1e999"],
    "seen": ["> 0.5", "<= 1e0", "IN (1.5, -2)", "IS NULL"],
    "label": ["LIKE 'po%'", "= 'x'", "LIKE 'x'", "NOT LIKE 'x%'", "LIKE '%x'", "IN ('a', 'b')", "> 'm'"],
}  # fmt: skip
REST = ["price > 5", "symbol = 'x'", "halted", "listed > '2024-01-31'", "array_contains(tags, 'x')", "tags IS NULL",
        "price BETWEEN 1 AND 2", "place.lat > 5", "symbol LIKE '%x'", "sqrt(price) > 2", "nope(image)",
        "volume = 'x'"]  # fmt: skip


@st.composite
def predicates(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(REST))
    name = draw(st.sampled_from(list(GOOD)))
    arguments = [draw(st.sampled_from(choices)) for choices in GOOD[name]]
    if draw(st.integers(0, 7)) == 0:
        place = draw(st.integers(0, len(arguments) - 1))
        arguments[place] = draw(st.sampled_from(ATTRIBUTES + LITERALS))
    gap = draw(GAPS)
    spelt = draw(st.sampled_from([name, name, name.upper(), f'"{name}"']))
    call = f"{spelt}{draw(GAPS)}({gap}{f'{gap}, '.join(arguments)}{draw(GAPS)})"
    tests = TESTS.get(name, ["", "", "", "= TRUE", "IS TRUE", "= FALSE", "IS NULL", "> 5"])
    text = f"{call} {draw(st.sampled_from(tests))}".rstrip()
    return f"({text})" if draw(st.integers(0, 9)) == 0 else text


@st.composite
def filters(draw: st.DrawFn) -> str:
    parts = draw(st.lists(predicates(), min_size=1, max_size=4))
    word = " OR " if draw(st.integers(0, 9)) == 0 else " AND "
    return draw(st.sampled_from(["", "", "", "NOT "])) + word.join(parts)


@settings(max_examples=400, deadline=None)
@given(st.lists(filters(), min_size=1, max_size=4), st.booleans())
def test_calls_in_bulk_and_a_whole_parse_agree(texts: list[str], typed: bool) -> None:
    """Same normal form, same calls, same bounds, same errors at the same places."""
    check_batch(KNOWN[typed], texts)


@settings(max_examples=200, deadline=None)
@given(filters(), st.booleans())
def test_one_filter_is_read_as_in_a_batch(text: str, typed: bool) -> None:
    """The way for a single filter ends at the same terms and literals."""
    check_one(KNOWN[typed], text)


@pytest.mark.parametrize(
    "text",
    [
        "in_area(place, 'Bronx')",
        "in_area(place,'Bronx') AND crowd( image ) > 50 and price > 5",
        "CROWD (image) BETWEEN 5 AND 10 AND crowd(image) IN (1, 2, 3)",
        "label(image) LIKE 'po%' AND label(image) IS NOT NULL",
        "50 < crowd(image) AND (crowd(image) < 60)",
        "near(place, -5) AND near(place, 2.5e0) AND seen(DATE '2024-01-31', 5) > 0.5",
        "p(3, 4) AND boats(image, -3) = TRUE",
        "in_area(place, 'a AND b') AND in_area(place, 'x, (y') AND in_area(place, 'it''s')",
        'odd("a.b") AND odd(place.city) AND odd(NULL) AND odd(TRUE)',
    ],
)
def test_conjunctions_with_calls_are_plain(text: str) -> None:
    """What people write most is read part by part, and right, with a schema and without."""
    assert check_batch(Shapes(SCHEMA), [text]) == 1
    assert check_batch(Shapes(None, OPERATORS), [text]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "boats(image, :y)",
        "boats(image, :y) AND :y > 5",
        "NOT crowd(image) > 5",
        "crowd(image) > 5 OR halted",
        "in_area(place, 'x' 'y')",
        "crowd(label(image)) > 5",
        "in_area(place, 'a\x02b')",
        "crwd(image) > 5",
        "near(place, 1e999)",
        "crowd(image) > price",
    ],
)
def test_all_else_is_left_to_the_parser(text: str) -> None:
    """Variables, what isn't a conjunction, and what is refused, is parsed as a whole."""
    assert check_batch(Shapes(SCHEMA), [text]) == 0


def test_calls_that_differ_in_literals_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand filters with a thousand distinct calls have as many terms, and few parses."""
    parsed = []
    read = atoms.read_atom
    monkeypatch.setattr(
        atoms,
        "read_atom",
        lambda skeleton, *under: parsed.append(skeleton) or read(skeleton, *under),
    )
    rng = random.Random(1)
    texts = [
        " AND ".join(f"in_area(place, 'k{k}')" for k in rng.sample(range(1_000), 4)) + f" AND price > {n}"
        for n in range(1_000)
    ]  # fmt: skip
    for shapes in (Shapes(SCHEMA), Shapes(None, OPERATORS)):
        parsed.clear()
        found = shapes.read(texts)
        assert len(found.plain) == 1_000
        assert len(parsed) == 2
        assert len(found.plain.terms) > 900


def test_bad_literals_spoil_only_their_own_filters() -> None:
    """Filters with the same call share a parse, but not their mistakes, whichever comes first."""
    good = [f"seen('2024-01-{n:02}', {n}) > 0.{n}" for n in range(1, 29)]
    bad = [f"seen('2024-02-{n}', 1) > 0.5" for n in range(30, 60)]
    for texts in (good + bad, bad + good, bad[:3] + good + bad[3:]):
        found = Shapes(SCHEMA).read(texts)
        assert [row for row, _ in found.errors] == [n for n, t in enumerate(texts) if t in bad]
        assert check_batch(Shapes(SCHEMA), texts) == (0 if texts[: len(bad)] == bad else len(good))


def test_attributes_have_one_type_in_company() -> None:
    """Without a schema, a call and a comparison that imply different types are refused together, not apart."""
    texts = [
        "crowd(image) > 5 AND price > 2",
        "crowd(price) > 5 AND price > 2",
        "near(place, x) AND x > 2",
    ]
    found = Shapes(None, OPERATORS).read(texts)
    assert [row for row, _ in found.errors] == [1]
    assert "is used as" in found.errors[0][1].reason
    assert found.plain.rows.tolist() == [0, 2]
    assert check_batch(Shapes(None, OPERATORS), ["in_area(spot, 'x') AND spot.lat > 5"]) == 0
