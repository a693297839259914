"""What a registry does for its users, the same in memory, in a file and in PostgreSQL."""

import threading
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.registry.conftest import Clock

from penstock.base.errors import (
    ExpensiveSubscription,
    FilterError,
    LeaseError,
    RegistryError,
    SchemaError,
    SubscriptionErrors,
    UnknownSubscription,
)
from penstock.language import Schema
from penstock.matching.subscription_rows import FOREVER, SubscriptionSource
from penstock.registry import Subscription, Subscriptions


def test_what_is_subscribed_is_found_again(subs: Subscriptions, clock: Clock) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5", "1 hour")
    created = datetime.fromtimestamp(clock.now / 1e6, UTC)
    ends = datetime.fromtimestamp(clock.now / 1e6 + 3600, UTC)
    assert len(ticket) == 64
    assert subs.get(sid) == Subscription(sid, "alice", "price > 5", created, ends, sequence=1)
    assert subs.get(np.int64(sid)).to_dict()["expires"] == ends.isoformat()
    assert list(subs.list()) == [subs.get(sid)]
    assert len(subs) == 1


def test_any_text_that_is_a_filter_comes_back_as_it_was(subs: Subscriptions) -> None:
    texts = {
        "symbol = 'Ünïcødé 🚀 漢字'",
        "symbol = 'quote '' and \" and \\ and \\N'",
        "symbol = 'a\n\\.\nb'  -- a line that ends a COPY",
        "symbol = '\t\r\n%s %(x)s :x $1 ?'",
        "symbol\n=\n'several lines'",
        "symbol = ''",
    }
    name = "Zoë 🚀 'o\"neil\\\t"
    ids = {subs.subscribe(name, text).id: text for text in sorted(texts)}
    assert {found.id: found.filter for found in subs.list(name)} == ids
    rows = subs.active()
    assert dict(zip(rows.ids.tolist(), rows.filters.to_pylist(), strict=True)) == ids
    assert set(rows.subscribers.to_pylist()) == {name}


def test_removed_means_gone(subs: Subscriptions) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5")
    subs.unsubscribe(sid, ticket)
    with pytest.raises(UnknownSubscription, match=f"no live subscription {sid}"):
        subs.get(sid)
    assert list(subs.list(include_expired=True)) == []
    assert len(subs.active()) == 0
    again, _ = subs.subscribe("alice", "price > 5")
    assert again != sid, "an id isn't used twice"


@pytest.mark.parametrize("sid", [0, -1, 2**63, -(2**80)])
def test_no_such_id(subs: Subscriptions, sid: int) -> None:
    with pytest.raises(UnknownSubscription, match=str(sid)):
        subs.get(sid)


@pytest.mark.parametrize(
    ("subscriber", "reason"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 1025, "1,025 bytes long: at most 1,024"),
        ("é" * 513, "1,026 bytes long"),
    ],
)
def test_a_subscriber_that_is_refused(subs: Subscriptions, subscriber: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason):
        subs.subscribe(subscriber, "price > 5")
    assert subs.sequence() == 0
    subs.subscribe("é" * 512, "price > 5")


@pytest.mark.parametrize("text", ["", "price >", "a = '\0'", "a = '\ud800'", "drop table x; --"])
def test_a_filter_that_is_refused_changes_nothing(subs: Subscriptions, text: str) -> None:
    with pytest.raises(FilterError):
        subs.subscribe("alice", text)
    assert subs.sequence() == 0


def test_a_filter_of_ten_megabytes_is_refused_shortly(subs: Subscriptions) -> None:
    with pytest.raises(FilterError, match="too long") as refused:
        subs.subscribe("alice", "price = 1 OR " * 800_000 + "price = 2")
    assert len(str(refused.value)) < 1000


def test_other_types_are_a_type_error(subs: Subscriptions) -> None:
    with pytest.raises(TypeError):
        subs.subscribe("alice", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        subs.subscribe(5, "price > 5")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        subs.get("1")  # type: ignore[arg-type]
    with pytest.raises(LeaseError):
        subs.subscribe("alice", "price > 5", 60)  # type: ignore[arg-type]


def test_an_expensive_subscription_is_taken_with_a_warning(subs: Subscriptions) -> None:
    with pytest.warns(ExpensiveSubscription) as warned:
        sid, _ = subs.subscribe("alice", "name LIKE '%x%' OR price IS NULL OR price IS NOT NULL")
    assert warned[0].filename == __file__
    assert subs.get(sid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        subs.subscribe("alice", "symbol = 'GOOG' AND price > 5")


def test_list_by_subscriber_in_pages(subs: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.registry.store._PAGE", 3)
    mine = [subs.subscribe(("alice", "bob")[n % 2], f"price > {n}").id for n in range(16)][::2]
    assert [found.id for found in subs.list("alice")] == mine
    assert [found.id for found in subs.list("alice", limit=4)] == mine[:4]
    assert [found.id for found in subs.list(limit=0)] == []
    assert [found.id for found in subs.list("alice", limit=100)] == mine
    assert list(subs.list("Alice")) == []
    with pytest.raises(ValueError, match="negative"):
        subs.list(limit=-1)
    reading = subs.list()
    next(reading)
    subs.subscribe("carol", "price > 5")  # a half-read list holds no lock
    assert [found.subscriber for found in reading][-1] == "carol"


def test_a_long_list_is_asked_for_in_short_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thousandth page is asked for as the second is: each condition on the last id replaces the one before."""
    monkeypatch.setattr("penstock.registry.store._PAGE", 1)
    with Subscriptions() as subs:
        subs.load(pa.table({"subscriber": ["a"] * 1_100, "filter": ["price > 5"] * 1_100}))
        assert [one.id for one in subs.list("a")] == [*range(1, 1_101)]


def test_every_change_has_the_next_number(subs: Subscriptions) -> None:
    assert subs.sequence() == 0
    a, ticket_a = subs.subscribe("alice", "price > 1")
    b, ticket_b = subs.subscribe("bob", "price > 2")
    subs.renew(a, ticket_a, "forever")
    subs.unsubscribe(b, ticket_b)
    assert subs.sequence() == 4
    everything = subs.changes(0)
    assert everything.sequence == everything.upserts.sequence == 4
    assert everything.upserts.ids.tolist() == [a]
    assert everything.upserts.expires.tolist() == [FOREVER]
    assert everything.removed.tolist() == [b]
    assert subs.changes(2).upserts.ids.tolist() == [a]
    assert len(subs.changes(3).upserts) == 0
    assert subs.changes(3).removed.tolist() == [b]
    assert len(subs.changes(4)) == 0
    with pytest.raises(RegistryError, match="no changes since 5"):
        subs.changes(5)


def test_a_registry_is_a_source_of_subscriptions(subs: Subscriptions) -> None:
    assert isinstance(subs, SubscriptionSource)
    subs.subscribe("alice", "price > 5", "forever")
    rows = subs.active()
    assert rows.sequence == 1
    assert rows.ids.dtype == rows.expires.dtype == np.int64
    assert rows.expires.tolist() == [FOREVER]
    assert str(rows.filters.type) == str(rows.subscribers.type) == "string"
    assert bool(subs), "an empty registry is a registry all the same"


def test_sweeping_frees_what_has_expired_and_tells_the_feed(
    subs: Subscriptions, clock: Clock
) -> None:
    short, _ = subs.subscribe("alice", "price > 5", "1 hour")
    long, _ = subs.subscribe("bob", "price > 5", "1 day")
    assert subs.sweep() == 0
    clock.forward(3600)
    assert subs.sweep() == 1
    assert [found.id for found in subs.list(include_expired=True)] == [long]
    assert subs.changes(2).removed.tolist() == [short]
    assert subs.sweep() == 0
    assert subs.sequence() == 3


def test_with_a_schema_types_are_checked(subs: Subscriptions) -> None:
    typed = Subscriptions({"price": "double", "symbol": "string"})
    typed.subscribe("alice", "price > 5")
    with pytest.raises(FilterError, match="prise"):
        typed.subscribe("alice", "prise > 5")
    with pytest.raises(FilterError):
        typed.subscribe("alice", "price > 'five'")
    assert typed.schema == Schema.of({"price": "double", "symbol": "string"})
    assert subs.schema is None
    subs.subscribe("alice", "prise > 5")


def test_the_schema_is_kept_and_must_not_change(url: str) -> None:
    schema = {"price": "double"}
    Subscriptions.open(url, schema).close()
    with Subscriptions.open(url) as again:
        assert again.schema == Schema.of(schema)
        with pytest.raises(FilterError):
            again.subscribe("alice", "prise > 5")
    Subscriptions.open(url, schema).close()
    with pytest.raises(RegistryError, match="another schema"):
        Subscriptions.open(url, {"price": "string"})


def test_a_schema_given_later_must_fit_what_is_there(url: str, clock: Clock) -> None:
    with Subscriptions.open(url, clock=clock) as subs:
        good, _ = subs.subscribe("alice", "price > 5")
        bad, ticket = subs.subscribe("alice", "prise > 5")
        with pytest.raises(SubscriptionErrors) as refused:
            Subscriptions.open(url, {"price": "double"}, clock=clock)
        assert [sid for sid, _ in refused.value.errors] == [bad]
        assert subs.schema is None
        subs.unsubscribe(bad, ticket)
        with Subscriptions.open(url, {"price": "double"}, clock=clock) as typed:
            assert typed.get(good)


def test_a_schema_that_another_process_sets_is_obeyed_at_once(url: str) -> None:
    with Subscriptions.open(url) as early:
        early.subscribe("alice", "price > 5")
        Subscriptions.open(url, {"price": "double"}).close()
        with pytest.raises(FilterError):
            early.subscribe("alice", "prise > 5")
        early.subscribe("alice", "price > 6")
        assert early.sequence() == 2


def test_what_is_added_while_a_schema_is_being_set_must_fit_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.registry import schemas

    check_many = schemas.check_many

    def and_subscribe(*arguments: object) -> object:
        monkeypatch.setattr(schemas, "check_many", check_many)
        other.subscribe("alice", "prise > 5")
        return check_many(*arguments)  # type: ignore[arg-type]

    with Subscriptions.open(url) as other:
        monkeypatch.setattr(schemas, "check_many", and_subscribe)
        with pytest.raises(SubscriptionErrors, match="prise"):
            Subscriptions.open(url, {"price": "double"})
        assert other.schema is None


def test_compile_and_snapshot(subs: Subscriptions, tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(SchemaError, match="give the one of the events"):
        subs.compile()
    cheap, _ = subs.subscribe("alice", "price < 5")
    dear, _ = subs.subscribe("bob", "price > 50", "1 hour")
    schema = {"price": "double"}
    assert subs.compile(schema).match({"price": 1.0}, now=clock.now) == [cheap]
    assert subs.compile(schema).match({"price": 60.0}, now=clock.now) == [dear]
    assert subs.compile(schema).match({"price": 60.0}, now=clock.now + 3600 * 10**6) == []
    odd, _ = subs.subscribe("carol", "prise > 50")
    with pytest.raises(SubscriptionErrors) as refused:
        subs.compile(schema)
    assert [sid for sid, _ in refused.value.errors] == [odd]
    ref, errors = subs.snapshot(schema, tmp_path / "snapshots")
    assert ref.sequence == 3
    assert [sid for sid, _ in errors] == [odd]


def test_threads_share_a_registry(subs: Subscriptions) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(20):
                sid, ticket = subs.subscribe(name, f"price > {number}")
                subs.renew(sid, ticket, "forever")
                assert subs.get(sid).subscriber == name
                assert len(subs.changes(0)) >= 1
                if number % 2:
                    subs.unsubscribe(sid, ticket)
        except BaseException as error:  # noqa: BLE001 - told to the main thread below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"user{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert subs.sequence() == 4 * (20 + 20 + 10)
    assert len(subs) == 4 * 10


def test_a_failure_within_a_turn_undoes_it_all(
    subs: Subscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5")
    with monkeypatch.context() as broken:
        broken.setattr("penstock.registry.turns.Turn.close", lambda turn: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            subs.unsubscribe(sid, ticket)
        with pytest.raises(ZeroDivisionError):
            subs.subscribe("bob", "price > 5")
    assert subs.sequence() == 1
    assert [found.id for found in subs.list()] == [sid]
    assert subs.subscribe("bob", "price > 5").id == sid + 1


def test_after_close_it_says_so(subs: Subscriptions) -> None:
    subs.close()
    for deed in (subs.sequence, subs.active, lambda: subs.subscribe("alice", "price > 5")):
        with pytest.raises(RegistryError, match="closed"):
            deed()
    subs.close()


def test_whoever_runs_the_registry_removes_without_a_ticket(subs):
    """A bulk-loaded subscription has no ticket, and can still be removed; one that isn't there is an error."""
    sid, _ = subs.subscribe("alice", "price > 5")
    before = subs.sequence()
    subs.remove(sid)
    assert len(subs) == 0
    assert subs.changes(before).removed.tolist() == [sid]
    with pytest.raises(UnknownSubscription):
        subs.remove(sid)
