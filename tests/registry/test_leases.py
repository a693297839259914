"""Leases: how they are written, what is refused, and that time alone ends a subscription."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registry.conftest import Clock

from penstock.base.errors import LeaseError, TicketError
from penstock.matching.subscription_rows import FOREVER
from penstock.registry import Subscriptions
from penstock.registry.leases import lease_end, lease_length

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("lease", "seconds"),
    [
        ("1 day", 86_400),
        ("7 days", 7 * 86_400),
        ("90 minutes", 5_400),
        ("2h", 7_200),
        ("2 H", 7_200),
        ("  1   Day ", 86_400),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        ("1 day, 12 hours", 129_600),
        ("1.5 hours", 5_400),
        ("0.5s", 0.5),
        ("250 ms", 0.25),
        ("2 weeks", 14 * 86_400),
        (timedelta(days=7), 7 * 86_400),
        (timedelta(microseconds=1), 1e-6),
        (timedelta(days=36_525), 36_525 * 86_400),
    ],
)
def test_a_lease_as_people_write_it(lease: str | timedelta, seconds: float) -> None:
    assert lease_length(lease) == round(seconds * SECOND)


@pytest.mark.parametrize(
    ("lease", "reason"),
    [
        ("", "can't be read"),
        ("soon", "can't be read"),
        ("day", "can't be read"),
        ("1", "can't be read"),
        ("-1 day", "can't be read"),
        ("1 day ago", "can't be read"),
        ("1 day,", "can't be read"),
        ("1e9 days", "unknown unit 'e'"),
        ("1 fortnight", "unknown unit 'fortnight'"),
        ("1 month", "unknown unit 'month'"),
        ("1 " + "x" * 10_000, "unknown unit 'xxx"),
        ("9" * 10_000 + " days", "can't be read"),
        ("forever and ever", "can't be read"),
        ("1 day" * 40_000, "longer than 100 years"),
        ("0 days", "not longer than zero"),
        ("0.0001 ms", "not longer than zero"),
        (timedelta(0), "not longer than zero"),
        (timedelta(days=-1), "not longer than zero"),
        (timedelta(days=36_525, microseconds=1), "longer than 100 years"),
        ("101 years", "unknown unit"),
        ("99999999 days", "longer than 100 years"),
        (3600, "neither text nor a timedelta"),
        (None, "neither text nor a timedelta"),
    ],
)
def test_a_lease_that_is_refused_says_why_and_how_to_write_it(lease: object, reason: str) -> None:
    with pytest.raises(LeaseError, match=reason) as refused:
        lease_length(lease)  # type: ignore[arg-type]
    assert "'1 day'" in str(refused.value) or "forever" in str(refused.value)
    assert len(str(refused.value)) < 300


@given(st.text())
def test_any_text_is_a_lease_or_a_lease_error(text: str) -> None:
    with contextlib.suppress(LeaseError):
        assert 0 < lease_length(text) <= FOREVER


def test_forever_has_no_end() -> None:
    assert lease_end(5, " Forever ") == FOREVER


def test_a_subscription_ends_with_its_lease_although_nobody_does_anything(
    subs: Subscriptions, clock: Clock
) -> None:
    sid, _ = subs.subscribe("alice", "price > 5")
    assert subs.get(sid).expires == subs.get(sid).created + timedelta(days=1)
    clock.forward(86_400 - 0.000_001)
    assert subs.active().ids.tolist() == [sid]
    clock.forward(0.000_001)
    assert subs.active().ids.tolist() == []
    assert len(subs) == 0
    assert list(subs.list()) == []
    assert [found.id for found in subs.list(include_expired=True)] == [sid]
    assert subs.active(now=clock.now - 1).ids.tolist() == [sid]


def test_a_new_lease_starts_at_the_renewal_and_may_be_shorter(
    subs: Subscriptions, clock: Clock
) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5", "1 day")
    clock.forward(3600)
    renewed = subs.renew(sid, ticket, "7 days")
    assert renewed.expires == renewed.created + timedelta(days=7, hours=1)
    assert subs.get(sid) == renewed
    renewed = subs.renew(sid, ticket, "1 minute")
    assert renewed.expires == renewed.created + timedelta(hours=1, minutes=1)
    clock.forward(60)
    assert len(subs) == 0


def test_a_clock_that_went_back_is_the_clock(subs: Subscriptions, clock: Clock) -> None:
    """What seemed to have ended is there again, can be renewed, and its new lease counts from then on."""
    sid, ticket = subs.subscribe("alice", "price > 5", lease="1h")
    began = clock.now
    clock.forward(86_400)
    with pytest.raises(TicketError):
        subs.renew(sid, ticket)
    late, late_ticket = subs.subscribe("bob", "price > 6", lease="1h")
    clock.now = began
    subs.renew(sid, ticket, lease="2h")
    subs.renew(late, late_ticket, lease="1h")
    ends = dict(zip(*(column.tolist() for column in _ends(subs)), strict=True))
    assert ends == {sid: began + 7_200 * SECOND, late: began + 3_600 * SECOND}


def _ends(subs: Subscriptions) -> tuple[Any, Any]:
    rows = subs.active()
    return rows.ids, rows.expires
