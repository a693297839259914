"""Bulk load: a table of subscriptions checked as a whole, then written in one transaction.

All the errors come at once, and then nothing is loaded; or, when asked, the bad rows are left out and reported. A load
that dies half way (an error, a full disk, kill -9) leaves nothing behind.

The slow part, checking the filters, is done before the registry is locked. What is certain only under the lock (which
ids are taken, whether the schema is still the one the filters were checked against) is looked up again under it.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import FilterError, SubscriptionErrors
from penstock.matching.subscription_rows import FOREVER
from penstock.registry.incoming import Incoming
from penstock.registry.kinds import Rules, examine_all
from penstock.registry.limits import MAX_SUBSCRIBER, Limits, filter_error, subscriber_error
from penstock.registry.queries import Ids
from penstock.registry.schemas import KnownSchema
from penstock.registry.spending import check_cost, check_total, keep_costs, sum_costs
from penstock.registry.store import Store
from penstock.registry.tickets import new_tickets, ticket_hash
from penstock.registry.turns import Turn

RowErrors = dict[int, FilterError]  # by row of the source, 0 the first
Advance = Callable[[int], None]  # is given how many rows are done
Bar = Callable[[str], Advance]  # begins a stage of this name


@dataclass(frozen=True, eq=False, slots=True)
class LoadReport:
    """What a bulk load did.

    `errors` are the refused subscriptions (empty unless bad ones were skipped), by their id where they have one.
    `tickets` is a table of id and ticket if tickets were asked for: the only time they can be seen.
    """

    loaded: int
    errors: Sequence[tuple[int | None, FilterError]] = field(default_factory=tuple)
    tickets: pa.Table | None = None
    seconds: float = 0.0


class SchemaMoved(Exception):
    """The registry got its schema while filters were being checked without it: check them again."""


class LoadRules(NamedTuple):
    """What subscriptions must fit: `known` is the schema that `given` has."""

    known: KnownSchema
    given: Rules
    limits: Limits


class LoadOptions(NamedTuple):
    """How long subscriptions live, in microseconds; whether they get tickets; whether bad ones are left out."""

    lease: int
    tickets: bool
    skip_bad: bool


def load_incoming(
    store: Store,
    incoming: Incoming,
    rules: LoadRules,
    options: LoadOptions,
    clock: Callable[[], int],
    bar: Bar,
) -> LoadReport:
    """Check and write. Raises SubscriptionErrors, or SchemaMoved if the registry's is another."""
    started = time.monotonic()
    ids = None if incoming.ids is None else pc.fill_null(incoming.ids, 0).to_numpy()
    errors = _row_errors(incoming, ids)
    costs = _examine(incoming.filters, rules, errors, bar("checking"))
    if ids is not None:
        _refuse_taken(incoming, ids, store.live_among(ids, clock()), errors)
    _raise_unless(options.skip_bad, errors, incoming)
    secrets = new_tickets(len(incoming)) if options.tickets else None
    hashes = None if secrets is None else [ticket_hash(ticket) for ticket in secrets]
    advance = bar("writing")
    with store.turn() as turn:
        if turn.schema != rules.known.text:
            raise SchemaMoved
        now = clock()
        if ids is not None:
            live, dead = turn.present(ids, now)
            _refuse_taken(incoming, ids, live, errors)
        if costs.any():
            _refuse_totals(incoming, costs, rules.limits, turn, now, errors)
        _raise_unless(options.skip_bad, errors, incoming)
        good = np.delete(np.arange(len(incoming)), list(errors))
        if ids is None:
            first = turn.take_ids(len(good))
            loaded = np.arange(first, first + len(good), dtype=np.int64)
        else:
            loaded = ids[good]
            turn.forget(dead[np.isin(dead, loaded)])
        turn.add_many(
            loaded,
            incoming.take(good) if errors else incoming,
            None if hashes is None else [hashes[row] for row in good],
            now,
            min(now + options.lease, FOREVER),
            advance,
        )
        if costs.any():
            costly = np.flatnonzero(costs[good])
            pairs = zip(loaded[costly].tolist(), costs[good][costly].tolist(), strict=True)
            keep_costs(turn.connection, dict(pairs))
    given = None
    if secrets is not None:
        given = pa.table({"id": pa.array(loaded), "ticket": [secrets[row] for row in good]})
    seconds = time.monotonic() - started
    return LoadReport(len(loaded), _by_id(errors, incoming), given, seconds)


@contextmanager
def progress_bar(total: int, shown: bool | None) -> Iterator[Bar]:
    """A bar on stderr with one line per stage; `shown` None is "if that is a terminal"."""
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda stage: lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:

        def stage(name: str) -> Advance:
            task = progress.add_task(name, total=total)
            return lambda done: progress.update(task, completed=done)

        yield stage


def _row_errors(incoming: Incoming, ids: Ids | None) -> RowErrors:
    """What is wrong with rows, but for what their filters say: the first error of each row."""
    names, filters = incoming.subscribers, incoming.filters
    errors: RowErrors = {}

    def add(bad: Bools, reason: Callable[[int], str]) -> None:
        for row in np.flatnonzero(bad).tolist():
            if row not in errors:
                errors[row] = FilterError(filters[row].as_py() or "", reason(row))

    if ids is not None and incoming.ids is not None:
        add(_mask(incoming.ids.is_null()), lambda row: "the id is null")
        first = np.zeros(len(ids), dtype=bool)
        first[np.unique(ids, return_index=True)[1]] = True
        add(~first, lambda row: f"the id {ids[row]} stands in an earlier row too")
    add(_mask(names.is_null()), lambda row: "the subscriber is null")
    add(_mask(filters.is_null()), lambda row: "the filter is null")
    too_long = np.asarray(pc.binary_length(names).fill_null(0)) > MAX_SUBSCRIBER
    suspect = too_long | _mask(pc.match_substring_regex(names, "^\\s*$|\\x00"))
    add(suspect, lambda row: subscriber_error(names[row].as_py()) or "refused")
    add(
        _mask(pc.match_substring(filters, "\0")),
        lambda row: filter_error(filters[row].as_py()) or "refused",
    )
    return errors


def _examine(
    filters: pa.ChunkedArray, rules: LoadRules, errors: RowErrors, advance: Advance
) -> Int64s:
    """What each subscription costs. Adds to `errors` what is wrong with texts, also that one costs too much."""
    done = 0

    def checked(count: int) -> None:
        nonlocal done
        done += count
        advance(done)

    rows = np.delete(np.arange(len(filters)), list(errors))
    found, costs = examine_all(filters, rows, rules.given, checked)
    advance(len(filters))
    errors |= found
    for row, text in _unrefused(costs > rules.limits.subscription, filters, errors):
        error = check_cost(text, int(costs[row]), rules.limits)
        assert error is not None
        errors[row] = error
    return costs


def _refuse_totals(
    incoming: Incoming, costs: Int64s, limits: Limits, turn: Turn, now: int, errors: RowErrors
) -> None:
    """Add to `errors` the filters that are too much for their subscribers, beside those that these have."""
    rows = list(_unrefused(costs > 0, incoming.filters, errors))
    names = _values(incoming.subscribers, [row for row, _ in rows])
    totals = sum_costs(turn.connection, sorted(set(names)), now)
    for name, (row, text) in zip(names, rows, strict=True):
        error = check_total(text, int(costs[row]), totals[name], limits)
        if error is None:
            totals[name] += int(costs[row])
        else:
            errors[row] = error


def _refuse_taken(incoming: Incoming, ids: Ids, taken: Ids, errors: RowErrors) -> None:
    """Add to `errors` the subscriptions whose ids live ones have."""
    hint = "unsubscribe that one first, or load with another id"
    for row, text in _unrefused(np.isin(ids, taken), incoming.filters, errors):
        reason = f"the id {ids[row]} is taken by a live subscription"
        errors[row] = FilterError(text, reason, hint=hint)


def _unrefused(
    which: Bools, filters: pa.ChunkedArray, errors: RowErrors
) -> Iterator[tuple[int, str]]:
    """Those of some rows that have no error yet, with their texts."""
    rows = [row for row in np.flatnonzero(which).tolist() if row not in errors]
    return zip(rows, _values(filters, rows), strict=True)


def _raise_unless(skip_bad: bool, errors: RowErrors, incoming: Incoming) -> None:
    if errors and not skip_bad:
        raise SubscriptionErrors(_by_id(errors, incoming))


def _by_id(errors: RowErrors, incoming: Incoming) -> list[tuple[int | None, FilterError]]:
    """The errors in order of row. Where there is no id, the error has the number of the row, from 1."""
    rows = sorted(errors)
    ids = [None] * len(rows) if incoming.ids is None else _values(incoming.ids, rows)
    return [
        (sid, _at_row(row, errors[row]) if sid is None else errors[row])
        for sid, row in zip(ids, rows, strict=True)
    ]


def _at_row(row: int, error: FilterError) -> FilterError:
    return FilterError(
        error.text,
        f"row {row + 1}: {error.reason}",
        error.start,
        error.end,
        expected=error.expected,
        found=error.found,
        hint=error.hint,
    )


def _values(column: pa.ChunkedArray, rows: list[int]) -> list[Any]:
    values: list[Any] = column.take(pa.array(rows, pa.int64())).to_pylist()
    return values


def _mask(column: pa.ChunkedArray) -> Bools:
    return np.asarray(pc.fill_null(column, False), dtype=np.bool_)
