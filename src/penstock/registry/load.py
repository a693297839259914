"""Bulk load: a table of subscriptions checked as a whole, then written in one transaction.

If rows are bad, all the errors come at once and nothing is loaded; or, when asked, the bad rows are left out and
reported. A load that dies half way (an error, a full disk, kill -9) leaves nothing behind.

The same table can be loaded again and again. A subscription that is there already (`loaded_before`) keeps its id and
its ticket, is changed where it differs, and gets a new lease. One that hasn't changed and has a lease without end isn't
touched, so a load without news makes no work for those who follow the registry.

The slow part, checking the filters, is done before the registry is locked. Facts that are certain only under the lock
(which subscriptions are there, whether the schema is still the one the filters were checked against) are looked up
under it.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s
from penstock.base.durations import quote_briefly
from penstock.base.errors import FilterError, RegistryError, SubscriptionErrors
from penstock.matching.subscription_rows import FOREVER
from penstock.registry.details import DetailsRow
from penstock.registry.history import Ending, keep_ended
from penstock.registry.incoming import Incoming
from penstock.registry.kinds import Rules, examine_all
from penstock.registry.limits import Limits
from penstock.registry.loaded_before import Before, find_before, live_ids
from penstock.registry.paces import check_kind
from penstock.registry.records import utc_time
from penstock.registry.row_checks import RowErrors, row_errors, settle_paces
from penstock.registry.schemas import KnownSchema
from penstock.registry.spending import check_cost, check_total, keep_costs, sum_costs
from penstock.registry.store import Store
from penstock.registry.tickets import new_tickets, ticket_hash
from penstock.registry.turns import Turn, WrittenRows

Advance = Callable[[int], None]  # is given how many rows are done
Bar = Callable[[str], Advance]  # begins a stage of this name


@dataclass(frozen=True, eq=False, slots=True)
class LoadReport:
    """What a bulk load did.

    `new` rows were added, `changed` ones have another text, subscriber, metadata or pace than before, `same` ones don't
    differ. `ended` counts the subscriptions that the source no longer has, if these were to be ended. `errors` are the
    refused subscriptions, by id where they have one; it is empty unless bad rows were skipped. `tickets` is a table of
    id and ticket of the new subscriptions, if tickets were asked for: they can't be seen again. `expires` is the end of
    the lease that all now have; None if it has no end.
    """

    new: int
    changed: int
    same: int
    ended: int
    expires: datetime | None
    errors: Sequence[tuple[int | None, FilterError]] = field(default_factory=tuple)
    tickets: pa.Table | None = None
    seconds: float = 0.0

    @property
    def loaded(self) -> int:
        """How many of the source's rows the registry has now."""
        return self.new + self.changed + self.same


class SchemaMoved(Exception):
    """The registry got its schema while filters were being checked without it: check them again."""


class LoadRules(NamedTuple):
    """What subscriptions must fit. `known` is the schema of `given`."""

    known: KnownSchema
    given: Rules
    limits: Limits


class LoadOptions(NamedTuple):
    """How long subscriptions live, in microseconds; whether they get tickets; whether bad ones are left out.

    `source` says whose external ids these are; with `replace`, its subscriptions that aren't in the load end.
    """

    lease: int
    tickets: bool
    skip_bad: bool
    source: str
    replace: bool


class _Verdict(NamedTuple):
    """What is to be done with each row; `retold`: its text or subscriber has changed."""

    good: Bools
    new: Bools
    retold: Bools
    changed: Bools


class _Grant(NamedTuple):
    """What subscriptions are given: a lease from one moment to another, and tickets, row by row."""

    now: int
    end: int
    secrets: Sequence[str] | None


def load_incoming(
    store: Store,
    incoming: Incoming,
    rules: LoadRules,
    options: LoadOptions,
    clock: Callable[[], int],
    bar: Bar,
) -> LoadReport:
    """Check rows and write them. Raises SubscriptionErrors, or SchemaMoved if the registry has another schema now."""
    started = time.monotonic()
    errors = row_errors(incoming)
    incoming = settle_paces(incoming, errors)
    costs = _examine(incoming.filters, rules, errors, bar("checking"))
    secrets = new_tickets(len(incoming)) if options.tickets else None
    advance = bar("writing")
    with store.turn() as turn:
        if turn.schema != rules.known.text:
            raise SchemaMoved
        now = clock()
        grant = _Grant(now, min(now + options.lease, FOREVER), secrets)
        before = find_before(turn, incoming, options.source, now)
        verdict = _judge(turn, incoming, before, costs, rules.limits, errors)
        _raise_unless(options.skip_bad, errors, incoming)
        ids = _write(turn, incoming, before, verdict, grant, advance)
        costly = verdict.good & (verdict.new | verdict.retold) & (costs > 0)
        pairs = zip(ids[costly].tolist(), costs[costly].tolist(), strict=True)
        keep_costs(turn.connection, dict(pairs))
        ended = _end_absent(turn, before, options, len(incoming)) if options.replace else 0
        _note_refused(store, turn, incoming, before, errors)
    new = np.flatnonzero(verdict.good & verdict.new)
    given = None
    if secrets is not None:
        given = pa.table({"id": pa.array(ids[new]), "ticket": [secrets[row] for row in new]})
    changed = int(np.count_nonzero(verdict.good & verdict.changed))
    return LoadReport(
        new=len(new),
        changed=changed,
        same=int(np.count_nonzero(verdict.good)) - len(new) - changed,
        ended=ended,
        expires=None if grant.end == FOREVER else utc_time(grant.end),
        errors=_by_id(errors, incoming),
        tickets=given,
        seconds=time.monotonic() - started,
    )


def _judge(
    turn: Turn,
    incoming: Incoming,
    before: Before,
    costs: Int64s,
    limits: Limits,
    errors: RowErrors,
) -> _Verdict:
    """Compare the rows with what is there. Adds to `errors` those that only this comparison finds."""
    _refuse_taken(incoming, before, errors)
    new = ~before.is_live
    retold = before.differs("subscriber", incoming.subscribers)
    retold |= before.differs("filter", incoming.filters)
    charged = np.where(new | retold, costs, 0)
    if charged.any():
        _refuse_totals(incoming, charged, limits, turn, before, errors)
    changed = retold.copy()
    if incoming.metadata is not None:
        changed |= before.differs_in("metadata", incoming.metadata)
    if incoming.paces is not None:
        changed |= before.differs_in("pace", incoming.paces)
    else:
        _refuse_kept_paces(incoming, before, errors)
    good = np.ones(len(incoming), np.bool_)
    good[list(errors)] = False
    return _Verdict(good, new, retold, changed)


def _write(
    turn: Turn,
    incoming: Incoming,
    before: Before,
    verdict: _Verdict,
    grant: _Grant,
    advance: Advance,
) -> Int64s:
    """Write the new and changed rows, and give the others their new lease. Returns the ids of all rows."""
    ids = before.ids.copy()
    if incoming.ids is None:
        unnumbered = verdict.good & verdict.new & ~before.is_dead
        count = int(np.count_nonzero(unnumbered))
        first = turn.take_ids(count)
        ids[unnumbered] = np.arange(first, first + count)
    lasting = before.numbers("expires", 0) == grant.end  # leases without end: all others begin now
    written = verdict.good & (verdict.new | verdict.changed | ~lasting)
    turn.forget(ids[verdict.good & before.is_dead])
    again = written & before.is_live
    turn.make_room(ids[again], ids[again & verdict.retold])
    rows = np.flatnonzero(written)
    some = incoming if len(rows) == len(incoming) else incoming.take(rows)
    turn.add_many(
        WrittenRows(
            ids[rows],
            some.subscribers,
            some.filters,
            _tickets(before, rows, grant.secrets),
            before.numbers("created", grant.now)[rows],
            np.full(len(rows), grant.end),
        ),
        _details(some, before, ids, rows),
        advance,
    )
    return ids


def _tickets(before: Before, rows: Int64s, secrets: Sequence[str] | None) -> Sequence[bytes | None]:
    """What is kept of each row's ticket: of the one that its subscription has, else of a new one."""
    known = before.rows.column("ticket").to_pylist()
    return [
        known[place] if place >= 0 else None if secrets is None else ticket_hash(secrets[row])
        for row, place in zip(rows.tolist(), before.place[rows].tolist(), strict=True)
    ]


def _details(some: Incoming, before: Before, ids: Int64s, rows: Int64s) -> Sequence[DetailsRow]:
    """The details of the rows that are written: those that the load gives, else those that they had."""
    said = some.metadata is not None and pc.any(pc.not_equal(some.metadata, "{}")).as_py()
    paced = some.paces is not None and some.paces.null_count < len(some.paces)
    if some.externals is None and not said and not paced and not before.details:
        return ()
    kept = [before.kept(row) for row in rows.tolist()]
    if some.metadata is not None:
        texts = some.metadata.to_pylist()
        kept = [one._replace(metadata=text) for one, text in zip(kept, texts, strict=True)]
    if some.paces is not None:
        pairs = zip(kept, some.paces.to_pylist(), strict=True)
        kept = [one._replace(pace=pace) for one, pace in pairs]
    if some.externals is not None:
        names = some.externals.to_pylist()
        kept = [
            one._replace(source=before.external.source, external=name)
            for one, name in zip(kept, names, strict=True)
        ]
    return list(zip(ids[rows].tolist(), kept, strict=True))


def _end_absent(turn: Turn, before: Before, options: LoadOptions, rows: int) -> int:
    """End the source's subscriptions that aren't in the load. Returns how many."""
    absent = live_ids(turn, before.absent(), before.now)
    if absent and not rows:
        raise RegistryError(
            f"the source has no rows, and replace would end all {len(absent):,} subscriptions that were loaded before: "
            "nothing was changed"
        )
    named = f"the source {options.source!r}" if options.source else "the file"
    turn.remove(absent, Ending("replaced", f"a later load of {named} didn't have it", before.now))
    return len(absent)


def _note_refused(
    store: Store, turn: Turn, incoming: Incoming, before: Before, errors: RowErrors
) -> None:
    """Note in the history the rows that were refused, if they have an id of their own that no live subscription has."""
    if incoming.ids is None or not errors:
        return
    rows = [row for row in sorted(errors) if not before.is_live[row]]
    columns = [_values(one, rows) for one in (incoming.ids, incoming.subscribers, incoming.filters)]
    keep_ended(
        store.database,
        turn.connection,
        [
            (sid, _keepable(who), _keepable(text), "refused", errors[row].reason, before.now)
            for row, sid, who, text in zip(rows, *columns, strict=True)
            if sid is not None and sid not in before.bad
        ],
    )


@contextmanager
def progress_bar(total: int, shown: bool | None) -> Iterator[Bar]:
    """A bar on stderr with one line per stage; with `shown` None only if that is a terminal."""
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


def _examine(
    filters: pa.ChunkedArray, rules: LoadRules, errors: RowErrors, advance: Advance
) -> Int64s:
    """What each subscription costs. Adds to `errors` the texts that are wrong or cost too much."""
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
    incoming: Incoming,
    costs: Int64s,
    limits: Limits,
    turn: Turn,
    before: Before,
    errors: RowErrors,
) -> None:
    """Add to `errors` the filters that cost too much together with the others that their subscribers keep."""
    rows = list(_unrefused(costs > 0, incoming.filters, errors))
    names = _values(incoming.subscribers, [row for row, _ in rows])
    rewritten = set(before.ids[costs > 0].tolist())
    totals = sum_costs(turn.connection, sorted(set(names)), before.now, besides=rewritten)
    for name, (row, text) in zip(names, rows, strict=True):
        error = check_total(text, int(costs[row]), totals[name], limits)
        if error is None:
            totals[name] += int(costs[row])
        else:
            errors[row] = error


def _refuse_taken(incoming: Incoming, before: Before, errors: RowErrors) -> None:
    """Add to `errors` the rows whose ids another subscriber has, or whose subscriptions can't be read."""
    if incoming.externals is None:
        hint = (
            "an id stays with its subscriber: unsubscribe that one first, or load with another id"
        )
        taken = before.differs("subscriber", incoming.subscribers)
        for row, text in _unrefused(taken, incoming.filters, errors):
            reason = f"the id {before.ids[row]} is taken by a live subscription of somebody else"
            errors[row] = FilterError(text, reason, hint=hint)
    unreadable = np.isin(before.ids, list(before.bad))
    for row, _ in _unrefused(unreadable, incoming.filters, errors):
        errors[row] = before.bad[int(before.ids[row])].error()


def _refuse_kept_paces(incoming: Incoming, before: Before, errors: RowErrors) -> None:
    """Add to `errors` the texts that can't have the pace which their subscriptions keep."""
    for row in np.flatnonzero(before.is_live).tolist() if before.details else ():
        pace = before.kept(row).pace
        if pace is None or row in errors:
            continue
        text = incoming.filters[row].as_py()
        try:
            check_kind(pace, text)
        except RegistryError as error:
            errors[row] = FilterError(text, str(error))


def _keepable(text: str | None) -> str:
    """A text that was refused, shortened and without NULs, so that every database can store it."""
    return (text or "")[:1000].replace("\0", "?")


def _unrefused(
    which: Bools, filters: pa.ChunkedArray, errors: RowErrors
) -> Iterator[tuple[int, str]]:
    """Which rows of a mask have no error yet, with their texts."""
    rows = [row for row in np.flatnonzero(which).tolist() if row not in errors]
    return zip(rows, _values(filters, rows), strict=True)


def _raise_unless(skip_bad: bool, errors: RowErrors, incoming: Incoming) -> None:
    if errors and not skip_bad:
        raise SubscriptionErrors(_by_id(errors, incoming))


def _by_id(errors: RowErrors, incoming: Incoming) -> list[tuple[int | None, FilterError]]:
    """The errors in order of row. Where there is no id, the error has the number of the row, from 1."""
    rows = sorted(errors)
    ids = [None] * len(rows) if incoming.ids is None else _values(incoming.ids, rows)
    named = incoming.externals
    names = [None] * len(rows) if named is None else _values(named, rows)
    return [
        (sid, _at_row(row, name, errors[row]) if sid is None else errors[row])
        for sid, name, row in zip(ids, names, rows, strict=True)
    ]


def _at_row(row: int, name: str | None, error: FilterError) -> FilterError:
    called = "" if name is None else f" ({quote_briefly(name)})"
    return FilterError(
        error.text,
        f"row {row + 1}{called}: {error.reason}",
        error.start,
        error.end,
        expected=error.expected,
        found=error.found,
        hint=error.hint,
    )


def _values(column: pa.ChunkedArray, rows: list[int]) -> list[Any]:
    values: list[Any] = column.take(pa.array(rows, pa.int64())).to_pylist()
    return values
