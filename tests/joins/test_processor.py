"""What a processor keeps of subscriptions and tuples: no more than there is, and nothing half done."""

import math
import random

import pytest
from tests.joins.small_world import (
    WORLDS,
    random_change,
    random_subscription,
)
from tests.joins.tuple_changes import TupleChange, sent, subscribe

from penstock.base.errors import PenstockError, SchemaError
from penstock.joins.join_view import JoinView
from penstock.joins.processor import Processor
from penstock.joins.selects import read_select
from penstock.joins.subscription import SelectJoin, Side
from penstock.language.values import Values

BINARY = WORLDS["binary"]


def wrong(name: str) -> SelectJoin:
    """A select-join that no processor can take, as nobody who reads texts makes it."""
    sides = {
        "the end of 64 bits": Side("R", (("a", Values(((None, 2**63 - 1),))),)),
        "no such attribute": Side("R", (("nothing", Values(((1, 2),))),)),
        "NULL in a range": Side("R", (("a", Values(((1, 2),), null=True)),)),
        "no filter": Side("R", (), "a ="),
    }
    return SelectJoin((sides[name],), ())


@pytest.mark.parametrize(
    "name", ["the end of 64 bits", "no such attribute", "NULL in a range", "no filter"]
)
@pytest.mark.parametrize("make", [Processor])
def test_a_subscription_that_is_refused_leaves_nothing(name, make):
    """Neither it nor those that came with it are there; the others go on, and the id can be used again."""
    processor = make(BINARY)
    good = read_select("SELECT * FROM R WHERE a > 3 AND p >= 'b' AND id <> 5", BINARY).join
    processor.subscribe_all([(1, good)])
    with pytest.raises(PenstockError):
        processor.subscribe_all([(2, good), (3, wrong(name))])
    assert len(processor) == 1
    with pytest.raises(PenstockError, match="no subscription 3"):
        processor.unsubscribe(3)
    assert list(sent(processor, TupleChange("R", {"id": 1, "a": 4, "b": 1, "p": "c"}))) == [1]
    assert len(subscribe(processor, 3, good, make)) == 1
    processor.unsubscribe(1)
    processor.unsubscribe(3)


def test_join_keys_are_forgotten_with_their_last_tuple():
    """As many are known as there are in the tables, however many have come and gone."""
    processor = Processor(BINARY, {1: read_select("SELECT * FROM R JOIN S USING (b)", BINARY).join})
    edge = BINARY.edges[0]
    keys = processor.tables["R"]._edges[edge]
    for key in range(500):
        sent(processor, TupleChange("R", {"id": 1, "a": 1, "b": key, "p": ""}))
        sent(processor, TupleChange("S", {"id": key % 3, "b": key, "c": 1}))
    assert len(keys) == 3  # of R one, of S three, one of them the same
    gone = [TupleChange("R", key=(1,)), *[TupleChange("S", key=(n,)) for n in range(3)]]
    sent(processor, *gone)
    assert len(keys) == 0
    assert keys.end < 10


@pytest.mark.parametrize("make", [Processor])
def test_constants_and_residuals_are_forgotten_with_their_last_subscription(make):
    """Coordinates, and what is tested of a tuple, depend on the subscriptions that there are."""
    processor = make(WORLDS["words"])
    for n in range(50):
        text = f"SELECT * FROM R WHERE a >= '{n:03}' AND a LIKE '%{n}'"
        processor.subscribe_all([(n, read_select(text, WORLDS["words"]).join)])
    for n in range(49):
        processor.unsubscribe(n)
    axis = processor.tables["R"].axes["a"]
    assert len(axis._labels) == 1
    residuals = processor.scheme._residuals["R"]
    assert len(residuals._texts) == len(residuals._matcher) == 1
    row = {"id": 1, "a": "049", "b": None}
    assert list(sent(processor, TupleChange("R", row))) == [49]


def test_tests_of_residuals_are_counted_by_subscription():
    """As many as were evaluated, for as many tuples as were looked at; who shares a residual has all of its tests."""
    many = " AND ".join(f"NOT p LIKE '{'_' * n}'" for n in range(2, 7))
    texts = [f"a > 0 AND {many}", f"a > 5 AND {many}", "a > 0 AND p LIKE '%x%'", "a > 0"]
    joins = [read_select(f"SELECT * FROM R WHERE {text}", BINARY).join for text in texts]
    processor = Processor(BINARY, dict(enumerate(joins)))
    rows = [{"id": n, "a": n, "b": 1, "p": "0x" if n == 9 else ""} for n in range(10)]
    sent(processor, *[TupleChange("R", row) for row in rows])
    tuples, tests = processor.take_costs()
    assert tuples == 9  # but for the first, of which a is 0
    first = 1  # test of every residual: an index has it, and it isn't counted
    assert tests == {0: 8 * (5 - first), 1: 8 * (5 - first)}
    assert processor.take_costs() == (0, {})


def test_a_key_is_compared_as_sql_compares_it():
    """NaN is NaN, and -0.0 is 0.0: a tuple is replaced and deleted by either."""
    catalog = WORLDS["odd keys"]
    join = read_select("SELECT * FROM R", catalog).join
    for one, other in ((math.nan, float("nan")), (-0.0, 0.0)):
        processor, view = Processor(catalog, {1: join}), JoinView("SELECT * FROM R", catalog)
        for change in (
            TupleChange("R", {"id": one, "a": 1, "b": 1}),
            TupleChange("R", {"id": other, "a": 2, "b": 1}),
        ):
            view.apply(sent(processor, change)[1])
        assert [row[1] for row in view] == [2]
        moved = TupleChange("R", {"id": one, "a": 3, "b": 1}, key=(other,))
        view.apply(sent(processor, moved)[1])
        assert [row[1] for row in view] == [3]
        view.apply(sent(processor, TupleChange("R", key=(one,)))[1])
        assert len(view) == len(processor.tables["R"]) == 0


def test_an_end_of_64_bits_is_a_residual():
    """Every comparison with the last integers is read, and served exactly."""
    catalog = WORLDS["ends"]
    join = read_select("SELECT * FROM R WHERE far < 9223372036854775807", catalog).join
    assert join.sides == (Side("R", (), "far < 9223372036854775807"),)
    with pytest.raises(SchemaError, match="at the end of all 64-bit integers"):
        Processor(
            catalog, {1: SelectJoin((Side("R", (("far", Values(((2**63 - 1, None),))),)),), ())}
        )


@pytest.mark.parametrize("make", [Processor])
def test_readers_do_not_depend_on_the_order_of_subscriptions(make):
    """Whoever came first, the same are told the same."""
    catalog, rng = WORLDS["wide"], random.Random(5)
    asked = {n: random_subscription(catalog, rng).join for n in range(12)}
    changes = [random_change(catalog, rng) for _ in range(60)]
    found = []
    for _ in range(3):
        pairs = list(asked.items())
        rng.shuffle(pairs)
        processor = make(catalog)
        for pair in pairs:
            processor.subscribe_all([pair])
        received = [sent(processor, change) for change in changes]
        found.append([{s: set(map(repr, m)) for s, m in one.items()} for one in received])
    assert found[0] == found[1] == found[2]
