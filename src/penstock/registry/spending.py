"""How much the subscriptions of a registry may cost, and how much each costs.

Costs are those of `matching.costs`. Most subscriptions cost nothing; the others have a row in a table of costs.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from penstock.base.errors import FilterError, RegistryError
from penstock.registry.bad_rows import BAD_ROW_HINT, WRONG_CHECKSUM
from penstock.registry.checksums import checksum_of_cost
from penstock.registry.kinds import kind_of
from penstock.registry.limits import Limits
from penstock.registry.queries import keep_only_row, live, read_only_row
from penstock.registry.records import Record
from penstock.registry.store import Store
from penstock.registry.tables import costs as costs_table
from penstock.registry.tables import limits as limits_table
from penstock.registry.tables import subscriptions


def read_limits(store: Store) -> Limits:
    """The limits that the owner has set; the defaults if none were set."""
    with store.reading() as connection:
        text = read_only_row(connection, limits_table.c.limits)
    return Limits() if text is None else Limits(**json.loads(text))


def keep_limits(store: Store, limits: Limits) -> None:
    """Set the limits from now on. Subscriptions that are there stay."""
    with store.turn() as turn:
        turn.connection.execute(delete(limits_table))
        keep_only_row(turn.connection, limits_table.c.limits, json.dumps(asdict(limits)))


def sum_costs(
    connection: Connection, subscribers: Sequence[str], now: int, besides: Set[int] = frozenset()
) -> Counter[str]:
    """What the live subscriptions of each subscriber cost together, without `besides`, which are about to change.

    RegistryError if a row is damaged.
    """
    s, c = subscriptions.c, costs_table.c
    found: Counter[str] = Counter()
    for first in range(0, len(subscribers), 500):
        some = list(subscribers[first : first + 500])
        statement = (
            select(s.subscriber, c.id, c.cost, c.checksum)
            .join_from(subscriptions, costs_table, s.id == c.id)
            .where(s.subscriber.in_(some), live(now))
        )
        for name, sid, cost, checksum in connection.execute(statement):
            if checksum != checksum_of_cost(sid, cost):
                raise RegistryError(
                    f"row {sid} of {costs_table.name} can't be read: {WRONG_CHECKSUM}; {BAD_ROW_HINT.format(sid)}"
                )
            if sid not in besides:
                found[name] += cost
    return found


def keep_costs(connection: Connection, costs: Mapping[int, int]) -> None:
    """Write down what new subscriptions cost, in the transaction that adds them."""
    rows = [
        {"id": sid, "cost": cost, "checksum": checksum_of_cost(sid, cost)}
        for sid, cost in costs.items()
    ]
    if rows:
        connection.execute(insert(costs_table), rows)


def check_cost(text: str, cost: int, limits: Limits) -> FilterError | None:
    """Why a subscription costs too much, if it does."""
    if cost <= limits.subscription:
        return None
    return FilterError(
        text[:1000],
        f"costs {cost:,}, and a subscription may cost {limits.subscription:,}: so many tests that no index decides "
        "may be evaluated for an event, or for a node of a document",
        hint=f"use fewer {kind_of(text).expensive}; "
        "whoever runs the registry can raise the limit (Limits.subscription)",
    )


def charge(connection: Connection, record: Record, cost: int, limits: Limits, now: int) -> None:
    """FilterError if a subscription costs too much together with the others of its subscriber."""
    subscriber, text = record.subscriber, record.filter
    before = sum_costs(connection, [subscriber], now, besides={record.id})[subscriber]
    error = check_total(text, cost, before, limits)
    if error is not None:
        raise error


def check_total(text: str, cost: int, before: int, limits: Limits) -> FilterError | None:
    """Why a filter costs too much together with the others of its subscriber, if it does."""
    if not cost or before + cost <= limits.subscriber:
        return None
    return FilterError(
        text[:1000],
        f"costs {cost:,} beside the {before:,} of the subscriber's other subscriptions, "
        f"and those of one subscriber may cost {limits.subscriber:,} together",
        hint=f"end some of them, or use fewer {kind_of(text).expensive}; "
        "whoever runs the registry can raise the limit (Limits.subscriber)",
    )
