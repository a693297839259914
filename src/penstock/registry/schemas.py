"""The schema of a registry: given once, kept with the subscriptions, obeyed by every process at once.

A registry without a schema checks only the syntax of filters. When it gets a schema, all its filters must fit, and from
then on every new one: a writer compares, within its turn, the schema it checked a filter against with the one the
registry has, and checks again if they differ.
"""

from typing import NamedTuple

from penstock.base.errors import RegistryError, SubscriptionErrors
from penstock.language import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.matching import check_many
from penstock.registry.kinds import FILTER, rows_of_kind
from penstock.registry.store import Store


class KnownSchema(NamedTuple):
    """A registry's schema: the text that is kept, and the schema read from it. Both are None if it has no schema.

    Operators aren't kept with it: they are those that this process was given.
    """

    text: str | None
    schema: Schema | None
    operators: Signatures = NO_OPERATORS


def read_schema(store: Store, last: KnownSchema) -> KnownSchema:
    """The registry's schema as it is now; `last` is the one known so far, which isn't parsed again."""
    text = store.head().schema
    if last.text == text:
        return last
    schema = None if text is None else Schema.from_json(text).with_operators(last.operators)
    return KnownSchema(text, schema, last.operators)


def keep_schema(store: Store, schema: Schema, now: int) -> KnownSchema:
    """Give the registry its schema. RegistryError if it has another, SubscriptionErrors if filters don't fit."""
    nothing = KnownSchema(None, None, schema.operators)
    known = read_schema(store, nothing)
    while known.schema is None:
        rows = rows_of_kind(store.active(now), FILTER)
        errors = check_many(rows.filters, schema)
        if errors:
            raise SubscriptionErrors([(int(rows.ids[row]), error) for row, error in errors])
        with store.turn() as turn:
            if turn.schema is None and turn.sequence == rows.sequence:
                turn.schema = schema.to_json()
        known = read_schema(store, nothing)
    if known.schema != schema:
        raise RegistryError(
            f"the registry {store.database} has another schema:\n"
            f"  its own: {known.schema}\n  given:   {schema}\n"
            "open it without a schema, or with its own"
        )
    # Not `known.schema`, which is equal: caches find the very same object faster.
    return KnownSchema(known.text, schema, schema.operators)
