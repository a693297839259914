"""What a registry can keep: ids of 64 bits, and names and filters that every database can store.

Also what its owner allows subscriptions to cost. The length of filters is limited by the language.
"""

import operator
from dataclasses import dataclass

from penstock.base.errors import FilterError, RegistryError

MAX_SUBSCRIBER = 1024
"""The most bytes of a subscriber's name or an external id, in UTF-8. PostgreSQL can index up to 2.7 KB."""

MAX_METADATA = 16_384
"""The most bytes of a subscription's metadata, as JSON in UTF-8: they may be sent with every notification."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a registry allows subscriptions to cost (see `matching.costs`).

    `subscription` is the most that one subscription may cost, `subscriber` the most that all subscriptions of one
    subscriber may cost together. A subscription that goes beyond either is refused. `evaluations` is how many tests may
    be evaluated for a subscription and an event, on average, while it runs. A subscription that takes more is set
    aside. (For select-joins an event is a tuple, for tree patterns a node of a document; see `pipeline.running_costs`.)

    The defaults allow thirty patterns with nothing beside them, such as a search for any of thirty words. `python -m
    benchmarks hostile` measures how much others are slowed down by the worst subscription that is accepted, and by the
    worst that is never set aside.

    >>> Limits(subscription=10).subscriber
    16384
    """

    subscription: int = 128
    subscriber: int = 16_384
    evaluations: int = 32

    def __post_init__(self) -> None:
        for name in ("subscription", "subscriber", "evaluations"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise RegistryError(f"the limit {name} is {value!r}: give a number of at least 0")


def subscriber_error(subscriber: str) -> str | None:
    """What is wrong with a subscriber's name, if anything.

    >>> subscriber_error("alice"), subscriber_error(" ")
    (None, 'the subscriber is empty')
    """
    return name_error(subscriber, "subscriber")


def name_error(name: str, what: str) -> str | None:
    """What is wrong with a name that is indexed, if anything.

    >>> name_error(" ", "external id")
    'the external id is empty'
    """
    if not name.strip():
        return f"the {what} is empty"
    size = size_of(name)
    if size is None:
        return f"the {what} is no text that can be kept: it holds a NUL or half a surrogate pair"
    if size > MAX_SUBSCRIBER:
        return f"the {what} is {size:,} bytes long: at most {MAX_SUBSCRIBER:,} are allowed"
    return None


def filter_error(text: str) -> str | None:
    """Why a filter's text can't be kept, if it can't. Its meaning is checked elsewhere.

    >>> filter_error("price > 5"), filter_error("name = '\\0'") is None
    (None, False)
    """
    if size_of(text) is None:
        return "the filter is no text that can be kept: it holds a NUL or half a surrogate pair"
    return None


def check_texts(subscriber: str, text: str) -> None:
    """Refuse a subscriber or a filter that can't be kept."""
    if not isinstance(subscriber, str) or not isinstance(text, str):
        raise TypeError("subscriber and filter must be text")
    if (wrong := subscriber_error(subscriber)) is not None:
        raise RegistryError(f"{wrong}; name who is to be notified")
    if (wrong := filter_error(text)) is not None:
        raise FilterError(text, wrong)


def as_int64(sid: int) -> int | None:
    """An id as a plain integer; None if no subscription can have it."""
    number = operator.index(sid)
    return number if -(2**63) <= number < 2**63 else None


def size_of(text: str) -> int | None:
    """Bytes in UTF-8. None if it isn't valid Unicode, or holds a NUL, which PostgreSQL can't store."""
    try:
        return None if "\0" in text else len(text.encode())
    except UnicodeEncodeError:
        return None
