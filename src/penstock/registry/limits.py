"""What a registry can keep: ids of 64 bits, names and filters that every database takes as they are. And what its owner
allows subscriptions to cost. How long a filter may be, the language says.
"""

import operator
from dataclasses import dataclass

from penstock.base.errors import FilterError, RegistryError

MAX_SUBSCRIBER = 1024
"""Bytes of a name in UTF-8, of a subscriber or from outside. It is indexed, and PostgreSQL indexes up to 2.7 KB."""

MAX_METADATA = 16_384
"""Bytes of a subscription's metadata, as JSON in UTF-8. They may go out with every notification."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a registry allows subscriptions to cost (see `matching.costs`).

    `subscription` and `subscriber`: the most that a subscription, and all of a subscriber's together, may cost. One
    that passes them is refused. `evaluations`: so many tests may be evaluated for a subscription and an event, on
    average, while it runs; one that takes more is set aside. (For select-joins an event is a tuple, for tree patterns a
    node of a document; see `pipeline.running_costs`.)

    The defaults let thirty patterns stand alone, as a search for any of thirty words does. `python -m benchmarks
    hostile` says by how much the worst that is accepted, and the worst that is never set aside, slow the others down.

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
    """What is wrong with a filter's text, whatever it says.

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
    """Bytes in UTF-8; None for what isn't Unicode text, or what PostgreSQL doesn't keep."""
    try:
        return None if "\0" in text else len(text.encode())
    except UnicodeEncodeError:
        return None
