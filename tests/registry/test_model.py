"""The registry against a model of a few lines: any course of events, seen the same by both."""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.registry.conftest import Clock

from penstock.base.errors import SubscriptionErrors, TicketError, UnknownSubscription
from penstock.matching.subscription_rows import FOREVER
from penstock.registry import Subscriptions

NAMES = st.sampled_from(["alice", "bob", "Zoë"])
FILTERS = st.sampled_from(["price > 5", "symbol = 'ü'", "price BETWEEN 1 AND 2", "a.b IS NULL"])
SECONDS = st.integers(1, 50)
IDS = st.integers(-3, 12)
POSITIONS = st.integers(0, 30)


@dataclass
class Known:
    """What the model knows of a subscription."""

    subscriber: str
    filter: str
    expires: int
    ticket: str | None


class RegistryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(0)
        self.subs = Subscriptions(clock=self.clock)
        self.model: dict[int, Known] = {}  # whatever was subscribed and not removed; maybe expired
        self.issued: list[tuple[int, str]] = []  # every id and ticket ever given
        self.changes = 0
        self.since = 0  # how far the follower of the feed has come
        self.followed: dict[int, tuple[str, str, int]] = {}

    def live(self) -> dict[int, Known]:
        return {i: known for i, known in self.model.items() if known.expires > self.clock.now}

    def end(self, seconds: int | None) -> tuple[str, int]:
        if seconds is None:
            return "forever", FOREVER
        return f"{seconds} seconds", self.clock.now + seconds * 1_000_000

    @rule(name=NAMES, text=FILTERS, seconds=st.none() | SECONDS)
    def subscribe(self, name: str, text: str, seconds: int | None) -> None:
        lease, expires = self.end(seconds)
        sid, ticket = self.subs.subscribe(name, text, lease)
        assert sid not in self.model
        assert all(sid != old for old, _ in self.issued)
        self.model[sid] = Known(name, text, expires, ticket)
        self.issued.append((sid, ticket))
        self.changes += 1

    @rule(which=POSITIONS, whose=POSITIONS, seconds=st.none() | SECONDS)
    def renew(self, which: int, whose: int, seconds: int | None) -> None:
        """With its own ticket or another's, whether it is alive or not."""
        if not self.issued:
            return
        sid = self.issued[which % len(self.issued)][0]
        ticket = self.issued[whose % len(self.issued)][1]
        lease, expires = self.end(seconds)
        known = self.live().get(sid)
        if known is not None and known.ticket == ticket:
            self.subs.renew(sid, ticket, lease)
            known.expires = expires
            self.changes += 1
        else:
            with pytest.raises(TicketError):
                self.subs.renew(sid, ticket, lease)

    @rule(which=POSITIONS, whose=POSITIONS)
    def unsubscribe(self, which: int, whose: int) -> None:
        if not self.issued:
            return
        sid = self.issued[which % len(self.issued)][0]
        ticket = self.issued[whose % len(self.issued)][1]
        known = self.live().get(sid)
        if known is not None and known.ticket == ticket:
            self.subs.unsubscribe(sid, ticket)
            del self.model[sid]
            self.changes += 1
        else:
            with pytest.raises(TicketError):
                self.subs.unsubscribe(sid, ticket)

    @rule(ids=st.lists(IDS, max_size=4), text=FILTERS, seconds=SECONDS, skip=st.booleans())
    def load(self, ids: list[int], text: str, seconds: int, skip: bool) -> None:
        """With ids of one's own: live ones are taken, dead ones may be used again."""
        lease, expires = self.end(seconds)
        live = self.live()
        good = [i for n, i in enumerate(ids) if i not in live and i not in ids[:n]]
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "who": ["bulk"] * len(ids),
                "filter": [text] * len(ids),
            }
        )
        if good != ids and not skip:
            with pytest.raises(SubscriptionErrors) as refused:
                self.subs.load(table, subscriber="who", lease=lease)
            assert len(refused.value.errors) == len(ids) - len(good)
            return
        report = self.subs.load(
            table, subscriber="who", lease=lease, tickets=True, on_error="skip" if skip else "raise"
        )
        assert report.tickets is not None
        given = dict(zip(*report.tickets.to_pydict().values(), strict=True))
        assert list(given) == good
        for sid in good:
            self.model[sid] = Known("bulk", text, expires, given[sid])
            self.issued.append((sid, given[sid]))
        self.changes += len(good)

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds: int) -> None:
        self.clock.forward(seconds)

    @rule()
    def sweep(self) -> None:
        dead = set(self.model) - set(self.live())
        assert self.subs.sweep() == len(dead)
        for sid in dead:
            del self.model[sid]
        self.changes += len(dead)

    @rule()
    def follow(self) -> None:
        """A follower of the feed, who comes by once in a while, has the same live subscriptions."""
        changes = self.subs.changes(self.since)
        rows = changes.upserts
        assert not set(rows.ids.tolist()) & set(changes.removed.tolist())
        for sid, name, text, expires in zip(
            rows.ids.tolist(),
            rows.subscribers.to_pylist(),
            rows.filters.to_pylist(),
            rows.expires.tolist(),
            strict=True,
        ):
            self.followed[sid] = name, text, expires
        for sid in changes.removed.tolist():
            self.followed.pop(sid, None)
        self.since = changes.sequence
        live = {i: row for i, row in self.followed.items() if row[2] > self.clock.now}
        assert live == {i: (k.subscriber, k.filter, k.expires) for i, k in self.live().items()}

    @rule(sid=IDS)
    def get(self, sid: int) -> None:
        known = self.live().get(sid)
        if known is None:
            with pytest.raises(UnknownSubscription):
                self.subs.get(sid)
        else:
            assert self.subs.get(sid).filter == known.filter

    @invariant()
    def the_same_subscriptions(self) -> None:
        rows = self.subs.active()
        live = sorted(self.live().items())
        assert rows.ids.tolist() == [i for i, _ in live]
        assert rows.subscribers.to_pylist() == [known.subscriber for _, known in live]
        assert rows.filters.to_pylist() == [known.filter for _, known in live]
        assert rows.expires.tolist() == [known.expires for _, known in live]
        assert [found.id for found in self.subs.list()] == [i for i, _ in live]
        assert len(self.subs) == len(live)

    @invariant()
    def numbers_without_gaps(self) -> None:
        assert self.subs.sequence() == self.changes

    def teardown(self) -> None:
        self.follow()
        self.subs.close()


TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
