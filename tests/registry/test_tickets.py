"""Tickets: only who has the ticket can renew or cancel, and nobody can learn it from the registry."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.registry.conftest import Clock

from penstock.base.errors import TicketError
from penstock.registry import Subscriptions, tickets


def message(subs: Subscriptions, sid: int, ticket: str) -> str:
    with pytest.raises(TicketError) as renewing:
        subs.renew(sid, ticket)
    with pytest.raises(TicketError) as cancelling:
        subs.unsubscribe(sid, ticket)
    assert str(renewing.value) == str(cancelling.value)
    return str(renewing.value).replace(f" {sid} ", " N ")


def test_whatever_is_wrong_the_answer_is_the_same(subs: Subscriptions, clock: Clock) -> None:
    mine, ticket = subs.subscribe("alice", "price > 5", "1 hour")
    other, other_ticket = subs.subscribe("bob", "price > 5", "1 day")
    gone, gone_ticket = subs.subscribe("carol", "price > 5", "1 day")
    subs.unsubscribe(gone, gone_ticket)
    subs.load(_table(77))
    answers = {
        message(subs, mine, "wrong"),
        message(subs, mine, other_ticket),
        message(subs, mine, ticket.upper()),
        message(subs, mine, ticket[:-1]),
        message(subs, mine, ""),
        message(subs, mine, "\ud800"),
        message(subs, gone, gone_ticket),
        message(subs, 77, ticket),  # loaded without a ticket: no ticket fits
        message(subs, 10_000, ticket),
        message(subs, 2**63, ticket),
        message(subs, -(2**70), ticket),
    }
    clock.forward(3600)
    answers.add(message(subs, mine, ticket))  # expired
    assert len(answers) == 1
    assert subs.sequence() == 5, "what is refused changes nothing"
    subs.renew(other, other_ticket)


def _table(sid: int) -> pa.Table:
    return pa.table({"id": [sid], "subscriber": ["dora"], "filter": ["price > 5"]})


def test_an_unknown_subscription_costs_a_comparison_too(
    subs: Subscriptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    monkeypatch.setattr(
        tickets.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or False
    )
    sid, ticket = subs.subscribe("alice", "price > 5")
    for wrong in (sid, sid + 1):
        with pytest.raises(TicketError):
            subs.renew(wrong, ticket)
    assert [len(a) == len(b) == 32 for a, b in compared] == [True, True]


def test_the_ticket_is_nowhere_in_the_file(tmp_path: Path) -> None:
    with Subscriptions.open(tmp_path / "subs.db") as subs:
        _, ticket = subs.subscribe("alice", "price > 5")
    kept = (tmp_path / "subs.db").read_bytes()
    assert b"alice" in kept
    assert ticket.encode() not in kept
    assert bytes.fromhex(ticket) not in kept
    assert tickets.ticket_hash(ticket) in kept


def test_tickets_are_256_bits_and_all_different() -> None:
    many = tickets.new_tickets(1000) + [tickets.new_ticket() for _ in range(1000)]
    assert len(set(many)) == 2000
    assert {len(bytes.fromhex(ticket)) for ticket in many} == {32}


def test_the_zero_hash_of_unknown_subscriptions_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tickets, "ticket_hash", lambda ticket: bytes(32))
    assert not tickets.ticket_fits("whose hash is zero", None)


def test_authenticating_waits_for_no_writer(tmp_path: Path):
    """Feeds are read while somebody loads a million subscriptions."""
    with (
        Subscriptions.open(tmp_path / "subs.db") as subs,
        Subscriptions.open(tmp_path / "subs.db") as other,
    ):
        sid, ticket = subs.subscribe("alice", "price > 5", metadata={"a": "b"})
        with other._store.turn():
            assert subs.authenticate(sid, ticket).metadata == {"a": "b"}
            with pytest.raises(TicketError):
                subs.authenticate(sid, "0" * 64)


def test_a_wrong_ticket_and_no_subscription_are_one_error():
    subs = Subscriptions()
    sid, ticket = subs.subscribe("alice", "price > 5")
    said = set()
    for asked, shown in ((sid, "0" * 64), (sid, ""), (99, ticket), (2**70, ticket)):
        with pytest.raises(TicketError) as caught:
            subs.authenticate(asked, shown)
        said.add(str(caught.value).replace(str(asked), "N"))
    assert len(said) == 1
    subs.unsubscribe(sid, ticket)
    with pytest.raises(TicketError):
        subs.authenticate(sid, ticket)


def test_a_ticket_of_ones_own_finds_the_subscription_again():
    subs = Subscriptions()
    own = "ab" * 32
    sid, ticket = subs.subscribe("alice", "price > 5", ticket=own)
    subs.subscribe("alice", "price > 6")
    assert ticket == own
    found = subs.find_by_ticket("alice", own)
    assert found is not None
    assert found.id == sid
    assert subs.find_by_ticket("alice", "cd" * 32) is None
    for wrong in ("", "ab", "AB" * 32, "xy" * 32):
        with pytest.raises(TicketError):
            subs.subscribe("alice", "price > 5", ticket=wrong)
