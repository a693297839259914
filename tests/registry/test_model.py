"""The registry against a model of a few lines: any course of events, seen the same by both."""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.registry.conftest import Clock

from penstock.base.errors import (
    RegistryError,
    SubscriptionErrors,
    TicketError,
    UnknownSubscription,
)
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
    external: str | None = None
    level: str | None = None  # its metadata


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
        """With ids of one's own: live ones stay with their subscriber, dead ones may be used again."""
        lease, expires = self.end(seconds)
        live = self.live()
        taken = {i for i, known in live.items() if known.subscriber != "bulk"}
        good = [i for n, i in enumerate(ids) if i not in taken and i not in ids[:n]]
        new = [i for i in good if i not in live]
        changed = [i for i in good if i in live and (live[i].filter, live[i].level) != (text, None)]
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
        assert list(given) == new
        assert (report.new, report.changed, report.loaded) == (len(new), len(changed), len(good))
        for sid in good:
            known = live.get(sid)
            if known is None:
                self.model[sid] = Known("bulk", text, expires, given[sid])
                self.issued.append((sid, given[sid]))
                self.changes += 1
            else:
                self.changes += sid in changed or known.expires != expires
                known.filter, known.expires, known.level = text, expires, None

    @rule(
        refs=st.lists(st.sampled_from("abcd"), unique=True, max_size=4),
        name=NAMES,
        text=FILTERS,
        seconds=st.none() | SECONDS,
        level=st.none() | st.sampled_from("12"),
        replace=st.booleans(),
    )
    def load_again(
        self,
        refs: list[str],
        name: str,
        text: str,
        seconds: int | None,
        level: str | None,
        replace: bool,
    ) -> None:
        """With external ids: known ones are changed, absent ones end if they are to be replaced."""
        lease, expires = self.end(seconds)
        mine = {known.external: i for i, known in self.model.items() if known.external is not None}
        live = self.live()
        absent = [i for ref, i in mine.items() if ref not in refs and i in live]
        columns = {"ref": refs, "subscriber": [name] * len(refs), "filter": [text] * len(refs)}
        table = pa.table(
            {n: pa.array(values, pa.string()) for n, values in columns.items()}
            | {"level": pa.array([level] * len(refs), pa.string())}
        )
        if replace and absent and not refs:
            with pytest.raises(RegistryError, match="would end all"):
                self.subs.load(table, external_id="ref", lease=lease, replace=True)
            return
        report = self.subs.load(table, external_id="ref", lease=lease, replace=replace)
        there = {found.external_id: found.id for found in self.subs.list() if found.external_id}
        new = changed = 0
        for ref in refs:
            known = live.get(mine.get(ref))  # type: ignore[arg-type]
            after = Known(name, text, expires, None, ref, level)
            if known is None:
                new += 1
                self.changes += 1
                assert mine.get(ref) in (None, there[ref])
                assert there[ref] not in live
            else:
                assert there[ref] == mine[ref]
                after.ticket = known.ticket
                same = (known.subscriber, known.filter, known.level) == (name, text, level)
                changed += not same
                self.changes += not same or known.expires != expires
            self.model[there[ref]] = after
        ended = absent if replace else []
        for sid in ended:
            del self.model[sid]
            assert self.subs.ended(sid).how == "replaced"  # type: ignore[union-attr]
        self.changes += len(ended)
        same_ones = len(refs) - new - changed
        found = (report.new, report.changed, report.same, report.ended)
        assert found == (new, changed, same_ones, len(ended))

    @rule(which=POSITIONS, whose=POSITIONS, text=FILTERS, force=st.booleans())
    def update(self, which: int, whose: int, text: str, force: bool) -> None:
        """With its own ticket or another's, or with none by whoever runs the registry."""
        if not self.issued:
            return
        sid = self.issued[which % len(self.issued)][0]
        ticket = self.issued[whose % len(self.issued)][1]
        known = self.live().get(sid)
        if known is not None and (force or known.ticket == ticket):
            found = self.subs.update(sid, None if force else ticket, text, force=force)
            known.filter = text
            self.changes += 1
            assert found == self.subs.get(sid)
        else:
            with pytest.raises(UnknownSubscription if force else TicketError):
                self.subs.update(sid, ticket, text, force=force)

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
        listed = [(s.id, s.external_id, s.metadata.get("level")) for s in self.subs.list()]
        assert listed == [(i, known.external, known.level) for i, known in live]
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
