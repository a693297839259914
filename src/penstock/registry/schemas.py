"""The schema of a registry: given once, kept with the subscriptions, obeyed by every process at once.

A registry may have none; then filters are checked for syntax only. When it gets one, all that it
holds must fit, and from then on nobody can add what doesn't: whoever writes compares, within its
turn, the schema it checked against with the one the registry has, and checks again if they differ.
"""

from typing import NamedTuple

from penstock.errors import RegistryError, SubscriptionErrors
from penstock.language import Schema
from penstock.matching import check_many
from penstock.registry.store import Store


class Known(NamedTuple):
    """A registry's schema: the text that is kept, and what it says. Both None if it has none."""

    text: str | None
    schema: Schema | None


def read_schema(store: Store, last: Known | None = None) -> Known:
    """The registry's schema as it is now; `last` is what it was, to save reading it again.

    >>> from penstock.registry.databases import database_of
    >>> read_schema(Store(database_of(None)))
    Known(text=None, schema=None)
    """
    text = store.head().schema
    if last is not None and last.text == text:
        return last
    return Known(text, None if text is None else Schema.from_json(text))


def keep_schema(store: Store, schema: Schema, now: int) -> Known:
    """Give the registry its schema. RegistryError if it has another, SubscriptionErrors if what it
    holds doesn't fit.

    >>> from penstock.registry.databases import database_of
    >>> store = Store(database_of(None))
    >>> keep_schema(store, Schema.of({"price": "double"}), 0) == read_schema(store)
    True
    """
    known = read_schema(store)
    while known.schema is None:
        rows = store.active(now)
        errors = check_many(rows.filters, schema)
        if errors:
            raise SubscriptionErrors([(int(rows.ids[row]), error) for row, error in errors])
        with store.turn() as turn:
            if turn.schema is None and turn.sequence == rows.sequence:
                turn.schema = schema.to_json()
        known = read_schema(store)
    if known.schema != schema:
        raise RegistryError(
            f"the registry {store.database} has another schema:\n"
            f"  its own: {known.schema}\n  given:   {schema}\n"
            "open it without a schema, or with its own"
        )
    return Known(known.text, schema)  # not its twin: caches find the same one at a glance
