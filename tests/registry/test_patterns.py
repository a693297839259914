"""Tree patterns in a registry: kept, leased, listed and loaded like filters, and out of the way of those."""

import contextlib
import random

import pyarrow as pa
import pytest
from tests.registry.conftest import Clock

from penstock import Catalog, FilterError, Limits, Subscriptions, Table, TicketError
from penstock.registry.kinds import FILTER, KINDS, Rules, are_of_kind, examine_all, kind_of
from penstock.views.pattern_parser import parse_pattern

PATTERN = "//news/item[topic = 'ACME'][author{val}]"
CATALOG = Catalog.of({"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol")})


@pytest.fixture
def subs(url: str, clock: Clock) -> Subscriptions:
    """A registry of all kinds, in a file and in PostgreSQL."""
    return Subscriptions.open(url, catalog=CATALOG, clock=clock)


def test_a_pattern_is_a_subscription_like_any_other(subs: Subscriptions, clock: Clock) -> None:
    """It has an id, a ticket and a lease, is listed, renewed and removed."""
    sid, ticket = subs.subscribe("alice", PATTERN, lease="1 hour")
    assert subs.get(sid).kind == "tree-pattern"
    assert [found.id for found in subs.list("alice")] == [sid]
    with pytest.raises(TicketError):
        subs.unsubscribe(sid, "guessed")
    subs.renew(sid, ticket, lease="2 hours")
    clock.forward(3_601)
    assert subs.patterns.trees() == {sid: parse_pattern(PATTERN)}
    clock.forward(3_600)
    assert (len(subs), subs.patterns.trees()) == (0, {})


def test_kinds_dont_see_each_other(subs: Subscriptions) -> None:
    """Whoever compiles one kind isn't given the others; whoever follows it sees an id leave for another kind."""
    texts = {7: "price > 5", 8: "SELECT * FROM Stocks", 9: PATTERN}
    subs.load(pa.table({"id": [*texts], "subscriber": ["a"] * 3, "filter": [*texts.values()]}))
    assert [list(subs.active().ids), list(subs.selects.joins()), list(subs.patterns.trees())] == [
        [7],
        [8],
        [9],
    ]
    kinds = ["filter", "select-join", "tree-pattern"]
    assert [found.kind for found in subs.list()] == kinds
    assert [[found.id for found in subs.list(kind=kind)] for kind in kinds] == [[7], [8], [9]]
    assert list(subs.list(kind="filter", limit=0)) == []
    with pytest.raises(ValueError, match="there is no kind 'join': give select-join, tree-pattern"):
        subs.list(kind="join")
    sequence = subs.sequence()
    for sid in (7, 9):
        subs.remove(sid)
    subs.load(pa.table({"id": [7, 9], "subscriber": ["a"] * 2, "filter": [PATTERN, "price > 5"]}))
    changes = subs.patterns.changes(sequence)
    assert (changes.upserts.ids.tolist(), changes.removed.tolist()) == ([7], [9])
    assert subs.changes(sequence).removed.tolist() == [7]


def test_what_is_wrong_with_a_pattern_is_said_with_its_place(subs: Subscriptions) -> None:
    """Subscribed or loaded, beside errors of the other kinds."""
    with pytest.raises(FilterError) as found:
        subs.subscribe("alice", "//item[")
    assert (found.value.start, found.value.reason) == (7, "the pattern breaks off")
    texts = ["//item[", PATTERN, "price >", "SELECT * FROM Nowhere"]
    report = subs.load(pa.table({"subscriber": ["a"] * 4, "filter": texts}), on_error="skip")
    assert report.loaded == 1
    assert [error.text for _, error in report.errors] == [texts[0], *texts[2:]]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("//a/b{val}", 0),
        ("//a[b = 5][b <> 'x']", 2),
        ("//*[b = 5]", 2),
        ("//*/*{val}", 6),
        ("/" + "/".join(["*"] * 64), 68),
    ],
)
def test_the_cost_of_a_pattern_is_what_labels_dont_decide(
    subs: Subscriptions, text: str, cost: int
) -> None:
    """Comparisons and nodes of any name; more of them than the owner allows are refused."""
    subs.set_limits(Limits(subscription=cost))
    with pytest.warns() if cost > 2 else contextlib.nullcontext():
        sid, ticket = subs.subscribe("mallory", text)
    subs.unsubscribe(sid, ticket)
    if cost:
        subs.set_limits(Limits(subscription=cost - 1))
        with pytest.raises(FilterError, match=f"costs {cost}, and a subscription may cost"):
            subs.subscribe("mallory", text)
        table = pa.table({"subscriber": ["mallory"], "filter": [text]})
        assert subs.load(table, on_error="skip").loaded == 0


def test_every_text_is_of_one_kind() -> None:
    """One by one and in columns, whatever stands in front of it."""
    rng = random.Random(1)
    pieces = [
        "select",
        "SELECT ",
        "//",
        "/*",
        "*/",
        "/",
        "{",
        "[",
        "a",
        " ",
        "\n",
        "é",
        "*",
        "= 1",
        "-",
        "'",
    ]
    texts = ["".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(2000)]
    column = pa.array([*texts, None])
    found = [are_of_kind(column, kind)[:-1].tolist() for kind in KINDS]
    assert [kind_of(text).name for text in texts] == [
        KINDS[row.index(True)].name for row in zip(*found, strict=True)
    ]
    assert all(sum(row) == 1 for row in zip(*found, strict=True))
    assert are_of_kind(column, FILTER)[-1]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/* all */ price > 5", "filter"),
        ("/**/price > 5", "filter"),
        (" /*\n*/ price > 5", "filter"),
        ("-- why\nprice > 5", "filter"),
        ("/*", "tree-pattern"),
        (" /* \n", "tree-pattern"),
        ("/*/b", "tree-pattern"),
        ("/*//b", "tree-pattern"),
        ("/*[b]", "tree-pattern"),
        ("/*{val}", "tree-pattern"),
        ("//*", "tree-pattern"),
        ("/a", "tree-pattern"),
        ("/", "tree-pattern"),
        ("[a = 1]", "tree-pattern"),
        ("select /* x */ 1", "select-join"),
    ],
)
def test_a_comment_is_no_pattern(text: str, kind: str) -> None:
    """`/*` begins a comment of a filter, or is a step to any element."""
    assert kind_of(text).name == kind
    assert [one.name for one in KINDS if are_of_kind(pa.array([text]), one)[0]] == [kind]


def test_kinds_are_examined_together_as_one_by_one() -> None:
    """The errors and the costs of a mixture are those of each text alone."""
    texts = [
        "price NOT LIKE '%5'",
        "//*",
        "SELECT * FROM Stocks WHERE Symbol NOT LIKE '%x%'",
        "//",
        "a <",
    ]
    rules = Rules(catalog=CATALOG)
    errors, costs = examine_all(pa.chunked_array([texts]), range(5), rules, lambda done: None)
    assert sorted(errors) == [3, 4]
    for row, text in enumerate(texts[:3]):
        assert kind_of(text).examine(text, rules).cost == costs[row] > 0
