"""`subs.covering()`: the frontier, who covers whom, and what that saves; the same on the command line."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import penstock  # noqa: F401  (a fixture)

import penstock as library
from penstock.base.errors import SchemaError, SubscriptionErrors

SCHEMA = {"a": "bigint", "s": "string"}
leaves = st.one_of(
    st.builds("a {} {}".format, st.sampled_from(["=", "<", ">=", "<>"]), st.integers(0, 4)),
    st.builds("s {} '{}'".format, st.sampled_from(["=", ">"]), st.sampled_from("xyz")),
    st.sampled_from(["a IS NULL", "s IS NOT NULL", "s LIKE 'x%'"]),
)
filters = st.lists(leaves, min_size=1, max_size=3).map(" AND ".join)
EVENTS = [
    {"a": a, "s": s}
    for a in (None, *range(-1, 6))
    for s in (None, "w", "x", "xx", "y", "yy", "z", "zz")
]


@settings(deadline=None, max_examples=60)
@given(st.lists(filters, min_size=1, max_size=12))
def test_the_frontier_matches_what_all_match(texts: list[str]) -> None:
    """Whatever a covered subscription matches, the one that covers it matches; who is in the frontier has no cover."""
    subs = library.Subscriptions(SCHEMA)
    subs.load(pa.table({"subscriber": ["ann"] * len(texts), "filter": texts}))
    found = subs.covering()
    matcher = subs.compile()
    matched = [set(matcher.match(event)) for event in EVENTS]
    assert sorted([*found.frontier, *found.covered]) == list(range(1, len(texts) + 1))
    for sid, cover in zip(found.covered.tolist(), found.covered_by.tolist(), strict=True):
        assert cover in found.frontier
        assert all(cover in ids for ids in matched if sid in ids)
    sets = {
        sid: frozenset(n for n, ids in enumerate(matched) if sid in ids)
        for sid in range(1, len(texts) + 1)
    }
    for sid in found.frontier.tolist():
        others = [sets[other] for other in found.frontier.tolist() if other != sid]
        assert not any(sets[sid] <= other for other in others)


def test_the_report_in_words_and_as_a_table() -> None:
    """A sentence, counts for JSON, and a table with a NULL for those of the frontier."""
    subs = library.Subscriptions(SCHEMA)
    for text in ("a > 1", "a > 2", "a = 1"):
        subs.subscribe("ann", text)
    found = subs.covering()
    assert str(found).startswith("2 of 3 subscriptions cover the others: 33.3%")
    assert found.to_dict() == {"subscriptions": 3, "frontier": 2, "covered": 1, "share": 0.3333}
    assert found.table().to_pydict() == {"id": [1, 2, 3], "covered_by": [None, 1, None]}


def test_without_a_schema_or_with_another() -> None:
    """Types decide what covers what, so a schema is needed, and everything must fit it."""
    subs = library.Subscriptions()
    subs.subscribe("ann", "a > 1")
    with pytest.raises(SchemaError, match="no schema"):
        subs.covering()
    with pytest.raises(SubscriptionErrors):
        subs.covering({"b": "bigint"})


def test_on_the_command_line(penstock, tmp_path) -> None:  # noqa: F811
    """--covered lists those that could be left out, each with its cover."""
    url = f"{tmp_path}/subs.db"
    with library.Subscriptions.open(url, SCHEMA) as subs:
        for user, text in (("ann", "a > 1"), ("bob", "a > 2"), ("bob", "s = 'x'")):
            subs.subscribe(user, text)
    result = penstock("list", "--covered", "-r", url)
    assert (result.exit_code, result.stdout) == (0, "2\t1\tbob\ta > 2\ta > 1\n")
    assert "2 of 3 subscriptions cover the others" in result.stderr
    (row,) = [
        json.loads(line)
        for line in penstock("list", "--covered", "-r", url, "--json").stdout.splitlines()
    ]
    assert (row["id"], row["covered_by"]) == (2, 1)
    assert penstock("list", "ann", "--covered", "-r", url).stdout == ""
