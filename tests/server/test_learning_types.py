"""A schema that is learned: it grows, conflicts are refused, and it is there after a restart."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.test_inbox import waiting

from penstock.joins.catalog import Catalog, Table
from penstock.language import Schema
from penstock.language.types import Struct
from penstock.server.publishing import (
    BodyLimits,
    Content,
    EventSchema,
    Inbox,
    Producer,
    Publisher,
    RecordsRefused,
    UnknownTable,
)
from penstock.server.publishing.attribute_types import from_text, root_of, to_text
from penstock.server.publishing.learning_types import MOST_ATTRIBUTES, MOST_GROWTH, Learner, merge
from penstock.server.publishing.record_problems import Problem
from penstock.server.publishing.record_shapes import RecordShape

NOTHING = Struct(())

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("abc"),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=5,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=3), max_size=8)
AGREEING = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-100, 100) | st.floats(-100, 100) | st.none(),
        "b": st.text("abc") | st.none(),
        "c": st.lists(st.integers(0, 5) | st.floats(0, 5) | st.none(), max_size=3),
        "d": st.fixed_dictionaries(
            {},
            optional={
                "x": st.booleans(),
                "y": st.lists(st.fixed_dictionaries({}, optional={"z": st.text("a")})),
            },
        ),
    },
)


def learn_all(records) -> tuple[Learner, list[dict]]:
    learner, taken = Learner(NOTHING), []
    for record in records:
        try:
            taken.append(learner.learn(json.loads(json.dumps(record))))
        except Problem:
            continue
    return learner, taken


def plain(root) -> object:
    """A schema whatever the order of its attributes."""
    if isinstance(root, Struct):
        return {name: plain(type_) for name, type_ in root.fields}
    return [plain(root.element)] if hasattr(root, "element") else str(root)


@given(RECORDS)
def test_what_was_accepted_is_accepted_ever_after(records):
    """With the last schema every record that was taken can be read, and nothing more is learned from it."""
    learner, taken = learn_all(records)
    shape = RecordShape(learner.root)
    for record in taken:
        shape.read_one(json.dumps(record).encode())
        before = learner.root
        assert learner.learn(record) == record
        assert learner.root == before


@given(
    st.lists(AGREEING, max_size=8).flatmap(
        lambda rows: st.tuples(st.just(rows), st.permutations(rows))
    )
)
def test_the_order_of_records_that_agree_does_not_matter(orders):
    """They give the same attributes with the same types."""
    one, other = (learn_all(records) for records in orders)
    assert plain(one[0].root) == plain(other[0].root)
    assert len(one[1]) == len(other[1]) == len(orders[0])


@given(RECORDS, RECORDS)
def test_schemas_merge_to_one_that_reads_what_either_reads(left, right):
    """If they don't conflict. Learning all the records one after the other gives the same."""
    mine, others = learn_all(left), learn_all(right)
    both = merge(mine[0].root, others[0].root)
    one_by_one, taken = learn_all([*mine[1], *others[1]])
    if both is None:
        assert len(taken) < len(mine[1]) + len(others[1])
        return
    assert plain(both) == plain(one_by_one.root)
    for record in (*mine[1], *others[1]):
        RecordShape(both).read_one(json.dumps(record).encode())


@given(RECORDS)
def test_a_schema_is_stored_as_it_is(records):
    """Spark's JSON form, which the language reads, too."""
    learner, _ = learn_all(records)
    assert from_text(to_text(learner.root)) == learner.root
    assert root_of(Schema(learner.root)) == learner.root
    Schema.from_json(to_text(learner.root))


@pytest.mark.parametrize(
    ("first", "second", "attribute", "reason"),
    [
        ({"a": 1}, {"a": "x"}, "a", "bigint until now, not the text 'x'"),
        ({"a": True}, {"a": 1}, "a", "boolean until now, not the number 1"),
        ({"a": {"b": 1}}, {"a": {"b": [1]}}, "a.b", "bigint until now, not an array"),
        ({"a": [1]}, {"a": ["x"]}, "a[]", "bigint until now, not the text 'x'"),
        ({"a": 1}, {"A": 1}, "A", "differs from 'a' in its case only, and filters don't tell them apart"),
        ({"a": 1}, {"_a": 1}, "_a", "names that begin with an underscore are the service's own"),
        ({"a": 1}, {"": 1}, "", "a name has 1 to 255 characters"),
        ({"a": 1}, {'a"b': 1}, 'a"b', "a name has no quotes, backslashes, or characters that can't be printed"),
        ({"a": 1}, {"b": 2**63}, "b", "the number 9223372036854775808 doesn't fit 64 bits"),
        ({"a": 1}, {"b": "x\0"}, "b", "has the character NUL, which not every database can hold"),
    ],
)  # fmt: skip
def test_what_conflicts_is_refused_and_nothing_is_learned(first, second, attribute, reason):
    """With the attribute, what it was until now, and what came."""
    learner = Learner(NOTHING)
    learner.learn(first)
    before = learner.root
    with pytest.raises(Problem) as problem:
        learner.learn({"new": 1, **second})
    assert (problem.value.attribute, problem.value.reason) == (attribute, reason)
    assert learner.root == before


def test_a_schema_does_not_grow_without_bound():
    """Whoever publishes a new name in each record is stopped, others aren't."""
    learner = Learner(NOTHING)
    learner.learn({f"a{n}": 1 for n in range(MOST_ATTRIBUTES)})
    with pytest.raises(Problem, match="are known already"):
        learner.learn({"one_more": 1})
    learner.learn({"a1": 2.5})


def test_one_request_brings_so_many_new_names():
    """More would cost the time of all others; what is known is still taken."""
    learner, taken = learn_all([{f"a{n}": 1} for n in range(MOST_GROWTH + 50)])
    assert len(taken) == len(learner.root.fields) == MOST_GROWTH
    with pytest.raises(Problem, match="in the same request"):
        learner.learn({"another": 1})
    learner.learn({"a1": 2})


# --- the publisher ------------------------------------------------------------------------------


@pytest.fixture
def publisher(tmp_path: Path):
    inbox = Inbox(tmp_path / "inbox.db")
    schema = EventSchema(tmp_path / "service.db")
    catalog = Catalog.of({"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol")})
    publisher = Publisher(inbox, schema, catalog, limits=BodyLimits())
    yield publisher
    publisher.close()
    schema.close()
    inbox.close()


def events(publisher: Publisher, body, **options):
    return asyncio.run(publisher.publish_events(Content(json.dumps(body).encode()), **options))


def test_a_schema_is_on_disk_before_its_records(publisher: Publisher, tmp_path: Path):
    """Each version has a number that the records carry; whoever listens is told; a restart finds it again."""
    schema = publisher._schema
    seen = []
    schema.on_change(lambda: seen.append(schema.version))
    assert schema.current() == (0, None)
    events(publisher, {"price": 5})
    events(publisher, {"price": 6})
    events(publisher, {"price": 5.5, "symbol": "GOOG"})
    events(publisher, [{"price": 1}, {"symbol": "A", "note": None}])
    assert seen == [1, 2]
    assert [row.schema for row in waiting(publisher._inbox)] == [1, 1, 2, 2]
    version, found = schema.current()
    assert (version, str(found)) == (2, "struct<price: double, symbol: string>")
    again = EventSchema(tmp_path / "service.db")
    assert again.shape == schema.shape
    assert again.ddl == "`_position` bigint, `_time` timestamp, `price` double, `symbol` string"
    again.close()


def test_requests_that_learn_at_once_agree_on_one_schema(publisher: Publisher):
    """Of two that conflict one is refused, and no attribute is lost."""

    async def many():
        bodies = [{f"a{n % 7}": n} for n in range(40)] + [{"clash": 1}, {"clash": "x"}]
        requests = [publisher.publish_events(Content(json.dumps(body).encode())) for body in bodies]
        return await asyncio.gather(*requests, return_exceptions=True)

    outcomes = asyncio.run(many())
    refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len(refused) == 1
    assert isinstance(refused[0], RecordsRefused)
    names = {name for name, _ in publisher._schema.shape.root.fields}
    assert names == {f"a{n}" for n in range(7)} | {"clash"}
    versions = {row.schema for row in waiting(publisher._inbox)}
    assert versions <= set(range(1, publisher._schema.version + 1))
    assert publisher._schema.version in versions  # what brought the last one waits for it


def test_all_or_the_rest(publisher: Publisher):
    """A request with a bad record is refused as a whole, or its good records are taken: nothing is learned in vain."""
    events(publisher, {"price": 5})
    body = [{"price": 5, "new": 1}, {"price": "x"}, {"price": 7}]
    with pytest.raises(RecordsRefused, match="record 1: price: bigint until now"):
        events(publisher, body)
    assert publisher._schema.version == 1
    answer = events(publisher, body, skip=True)
    assert (answer.accepted, answer.receipt.first, answer.receipt.last) == (2, 2, 3)
    assert [refused.index for refused in answer.refused] == [1]
    with pytest.raises(RecordsRefused):
        events(publisher, [{"price": "x"}], skip=True)


def test_what_was_accepted_once_is_not_refused_when_it_is_repeated(publisher: Publisher):
    """Though the schema has learned otherwise meanwhile."""
    events(publisher, {"a": []}, producer=Producer("p", 0, 0))
    events(publisher, {"a": "text"})
    answer = events(publisher, {"a": []}, producer=Producer("p", 0, 0))
    assert (answer.receipt.repeated, answer.receipt.first, answer.accepted) == (True, 1, 0)
    for producer in (Producer("p", 0, 1), Producer("q", 0, 0), None):
        with pytest.raises(RecordsRefused, match="string until now, not an array"):
            events(publisher, {"a": []}, producer=producer)


def test_a_large_body_a_repeat_a_change_and_a_document(publisher: Publisher):
    """Each to its own log."""
    many = [{"price": n, "text": "x" * 100} for n in range(500)]
    answer = events(publisher, many, producer=Producer("p", 0, 0))
    assert (answer.accepted, answer.receipt.last) == (500, 500)
    answer = events(publisher, many, producer=Producer("p", 0, 0))
    assert (answer.accepted, answer.receipt.repeated, answer.receipt.last) == (0, True, 500)

    async def others():
        change = Content(b'{"Symbol": "GOOG", "op": "delete"}')
        await publisher.publish_changes("Stocks", change)
        await publisher.publish_document(Content(b"<a/>", "application/xml"), name="n1")
        with pytest.raises(UnknownTable, match="did you mean 'Stocks'"):
            await publisher.publish_changes("Stonks", change)
        with pytest.raises(RecordsRefused, match="not an XML document"):
            await publisher.publish_document(Content(b"<a>", "application/xml"))

    asyncio.run(others())
    assert [row.log for row in waiting(publisher._inbox)] == [
        "events",
        "tables/Stocks",
        "documents/xml",
    ]
