"""Making subscriptions, in a thread: limits, idempotency keys, warnings, and the first offset that the feed covers."""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from penstock.base.errors import FilterError, RegistryError
from penstock.delivery.feeds import FeedStore
from penstock.matching import check
from penstock.registry import Subscriptions
from penstock.registry.details import metadata_text
from penstock.registry.kinds import FILTER, kind_of
from penstock.registry.leases import lease_length
from penstock.registry.limits import subscriber_error
from penstock.registry.paces import pace_text
from penstock.registry.records import Checked, Subscription
from penstock.server.publishing import EventSchema
from penstock.server.web.api_types import NewSubscription
from penstock.server.web.http_settings import HttpLimits
from penstock.server.web.idempotency import Attempt, IdempotencyKeys, Once
from penstock.server.web.problems import Problem

_REMEMBERED = 10_000  # subscribers whose counts are kept
_COUNTED_FOR = 60.0  # seconds


@dataclass(frozen=True)
class Made:
    """A subscription that was made, now or by an earlier attempt."""

    subscription: Subscription
    ticket: str
    offset: int
    checked: Checked
    is_new: bool


class Subscribing:
    """Makes subscriptions. Its methods block."""

    def __init__(
        self,
        registry: Subscriptions,
        schema: EventSchema,
        feeds: FeedStore,
        keys: IdempotencyKeys,
        limits: HttpLimits,
    ) -> None:
        self._registry, self._schema = registry, schema
        self._feeds, self._keys, self._limits = feeds, keys, limits
        self._one = threading.Lock()
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def subscribe(self, wish: NewSubscription, once: Once | None) -> Made:
        """Subscribe; with `once`, only if an earlier attempt hasn't."""
        self._check(wish)
        checked = check_subscription(self._registry, self._schema, wish.subscription)
        # The subscription isn't there yet: all its notifications will be at this offset or after it.
        tail = self._feeds.tail()
        if once is None:
            return self._add(wish, None, tail, checked)
        with self._one:
            attempt = self._keys.begin(once, tail)
            earlier = self._earlier(wish, attempt)
            if earlier is not None:
                return Made(earlier, attempt.ticket, attempt.offset, checked, is_new=False)
            try:
                made = self._add(wish, attempt.ticket, attempt.offset, checked)
            except BaseException:
                if attempt.is_first:
                    self._keys.forget(attempt)
                raise
            self._keys.end(attempt, made.subscription.id)
            return made

    def _earlier(self, wish: NewSubscription, attempt: Attempt) -> Subscription | None:
        if attempt.subscription is not None:
            return self._registry.authenticate(attempt.subscription, attempt.ticket)
        if attempt.is_first:
            return None
        found = self._registry.find_by_ticket(wish.subscriber, attempt.ticket)
        if found is not None:
            self._keys.end(attempt, found.id)
        return found

    def _check(self, wish: NewSubscription) -> None:
        if (wrong := subscriber_error(wish.subscriber)) is not None:
            raise Problem("invalid-value", wrong, pointer="/subscriber")
        check_text(wish.subscription, self._limits)
        check_metadata(wish.metadata)
        if wish.pace is not UNSET:
            check_pace(wish.pace, wish.subscription)
        lease_length(wish.lease)

    def _add(self, wish: NewSubscription, ticket: str | None, tail: int, checked: Checked) -> Made:
        self._count(wish.subscriber)
        sid, shown = self._registry.subscribe(
            wish.subscriber,
            wish.subscription,
            wish.lease,
            wish.metadata,
            pace=None if wish.pace is UNSET else wish.pace,
            ticket=ticket,
            warn=False,
        )
        return Made(self._registry.authenticate(sid, shown), shown, tail, checked, is_new=True)

    def _count(self, subscriber: str) -> None:
        """Raise a Problem if a subscriber has too many. The registry counts them now and then, and before a refusal."""
        most, now = self._limits.subscriptions, time.monotonic()
        count, at = self._counts.pop(subscriber, (most, float("-inf")))
        if count >= most or now - at > _COUNTED_FOR:
            count, at = self._registry.count_of(subscriber), now
        if count >= most:
            raise Problem(
                "too-many-subscriptions",
                f"the subscriber has {count:,} subscriptions, and {most:,} are allowed: cancel some",
                headers={"Retry-After": "60"},
                limit=most,
            )
        self._counts[subscriber] = (count + 1, at)
        while len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)


def check_subscription(registry: Subscriptions, schema: EventSchema, text: str) -> Checked:
    """Check a text. A filter that doesn't fit the events so far gets a warning.

    Where the schema is learned, the registry takes a misspelt attribute for one that is still to come.
    """
    found = registry.check(text)
    _, seen = schema.current()
    if not schema.is_learned or seen is None or found.kind != FILTER.name:
        return found
    try:
        check(text, seen, registry.operators.signatures)
    except FilterError as error:
        hint = f"; {error.hint}" if error.hint else ""
        warning = f"doesn't fit the events so far: {error.reason}{hint}"
        return found._replace(warnings=(*found.warnings, warning))
    return found


def check_text(text: str, limits: HttpLimits) -> None:
    """Raise a Problem if a text is longer than is allowed here."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.text_bytes:
        raise Problem(
            "invalid-subscription",
            f"the text has {size:,} bytes, and {limits.text_bytes:,} are allowed",
            hint="subscribe to less at once",
        )


def check_kind(text: str, kinds: Sequence[str]) -> None:
    """Raise a Problem if the matching side doesn't match texts of this kind: nobody would ever be notified."""
    kind = kind_of(text).name
    if kind not in kinds:
        raise Problem(
            "invalid-subscription",
            f"this is a {kind}, and this service matches only {' and '.join(kinds)}",
            hint="'match: spark' in its settings matches all kinds; select-joins need a catalogue",
        )


def check_pace(pace: str, text: str) -> None:
    """Raise a Problem if a subscription can't have a pace."""
    try:
        pace_text(pace, text)
    except RegistryError as error:
        raise Problem("invalid-value", str(error), pointer="/pace") from None


def check_side(pace: str, side: str) -> None:
    """Raise a Problem if the side that matches can't keep to a pace."""
    if side == "live":
        raise Problem(
            "invalid-value",
            f"the live matcher sends everything at once, and can't keep to the pace {pace!r}: leave it out, or run the "
            "service with match: spark",
            pointer="/pace",
        )


def check_metadata(metadata: dict[str, str]) -> None:
    """Raise a Problem if metadata can't be kept."""
    try:
        metadata_text(metadata)
    except RegistryError as error:
        raise Problem("invalid-value", str(error), pointer="/metadata") from None
