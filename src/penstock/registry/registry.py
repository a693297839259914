"""The registry: who subscribed to what, for how long.

Follows operators §5.1 (subscribe, renew, unsubscribe; tickets and leases) and adds what a registry of a million
subscriptions shared by several processes needs: a bulk load, a check of every filter before it is kept, and a change
feed from which snapshots are made. The methods that only read are in `readable_registry`.

A lease starts when the registry accepts it, by the clock of the process that asks: on several hosts, keep the clocks in
step (NTP). An expired subscription is gone: it can't be renewed, it doesn't match, it isn't listed.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from penstock.base.errors import ExpensiveSubscription, RegistryError, UnknownSubscription
from penstock.matching import Examined
from penstock.matching.subscription_rows import FOREVER
from penstock.registry.details import keep_details, metadata_text
from penstock.registry.history import Ending, forget_ends
from penstock.registry.incoming import SourceColumns, read_source
from penstock.registry.kinds import FILTER, SELECT_JOIN, Rules, kind_of
from penstock.registry.leases import DEFAULT_LEASE, Lease, lease_end, lease_length
from penstock.registry.limits import Limits, as_int64, check_texts, name_error
from penstock.registry.load import (
    LoadOptions,
    LoadReport,
    LoadRules,
    SchemaMoved,
    load_incoming,
    progress_bar,
)
from penstock.registry.paces import check_kind, pace_text
from penstock.registry.readable_registry import ReadableRegistry
from penstock.registry.records import (
    Checked,
    Details,
    Record,
    Subscribed,
    Subscription,
    subscription_of,
)
from penstock.registry.schemas import KnownSchema, read_schema
from penstock.registry.set_aside import set_aside
from penstock.registry.spending import charge, check_cost, keep_costs, keep_limits
from penstock.registry.tickets import check_new_ticket, check_ticket, new_ticket, ticket_hash
from penstock.registry.turns import Turn

DEFAULT_HISTORY = "30 days"
"""How long the registry remembers how subscriptions ended."""

T = TypeVar("T")


class Registry(ReadableRegistry):
    """Subscriptions by their ids: in memory, or by `open` in a file or a PostgreSQL database."""

    def set_limits(self, limits: Limits) -> None:
        """Set what subscriptions may cost from now on. Those that are there stay."""
        keep_limits(self._store, limits)
        self._limits = limits

    def set_aside(self, id: int, reason: str) -> bool:  # noqa: A002
        """End a subscription that harms others, and keep the reason for `refused`. False if there is no live one.

        >>> subs = Registry()
        >>> subs.set_aside(subs.subscribe("alice", "price > 5").id, "too expensive")
        True
        >>> len(subs), [(found.subscriber, found.reason) for found in subs.refused()]
        (0, [('alice', 'too expensive')])
        """
        number = as_int64(id)
        return number is not None and set_aside(self._store, number, reason, self._clock())

    def subscribe(
        self,
        subscriber: str,
        filter: str,  # noqa: A002
        lease: Lease = DEFAULT_LEASE,
        metadata: Mapping[str, str] | None = None,
        *,
        pace: str | None = None,
        ticket: str | None = None,
        warn: bool = True,
    ) -> Subscribed:
        """Add a subscription. Returns its id, and the ticket with which it can be renewed, changed or cancelled.

        `filter` may also be a tree pattern, `//item[author{val}]`, and in a registry with a catalogue a select-join,
        `SELECT * FROM … JOIN … WHERE …`. Raises FilterError if it can't be read, costs too much, or doesn't fit the
        schema, if the registry has one. Warns with ExpensiveSubscription if it will cost much more than most.
        `metadata` is information for the delivery, such as an address; a pipeline can hand it on. `pace` is how often
        the subscription is notified: `"10 per hour"` at most, or `"digest per day"`.

        A caller that must be able to find the subscription again after a crash (`find_by_ticket`) gives a `ticket` of
        its own: 64 hexadecimal digits. Threads that each want their own warnings ask `check`, and subscribe with
        `warn=False`.

        >>> sid, ticket = Registry().subscribe("alice", "price > 5", lease="2h")
        >>> sid, len(ticket)
        (1, 64)
        """
        check_texts(subscriber, filter)
        length = lease_length(lease)
        told = metadata_text(metadata or {})
        kept = Details(metadata=told, pace=None if pace is None else pace_text(pace, filter))
        given = new_ticket() if ticket is None else check_new_ticket(ticket)

        def add(turn: Turn, cost: int) -> int:
            now = self._clock()
            end = min(now + length, FOREVER)
            record = turn.add(subscriber, filter, ticket_hash(given), now, end)
            keep_details(turn.connection, record.id, kept)
            self._charge(turn, record, cost, now)
            return record.id

        return Subscribed(self._write_text(filter, add, warn=warn), given)

    def update(
        self,
        id: int,  # noqa: A002
        ticket: str | None,
        filter: str | None = None,  # noqa: A002
        *,
        metadata: Mapping[str, str] | None = None,
        pace: str | None = None,
        force: bool = False,
        warn: bool = True,
    ) -> Subscription:
        """Give a subscription another text; it keeps its id, its ticket and its lease. None leaves the text as it is.

        Followers of the registry see one change. The new text may be of another kind. If it is a select-join, the
        subscriber's view is sent anew. `metadata` and `pace` replace those that the subscription has (`"unlimited"`
        takes its pace away); None leaves them as they are.

        Raises FilterError as `subscribe` does, and TicketError as `renew` does. With `force`, meant for those who run
        the registry, no ticket is needed.

        >>> subs = Registry()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.update(sid, ticket, "price > 6").filter, subs.sequence()
        ('price > 6', 2)
        """
        told = None if metadata is None else metadata_text(metadata)

        def change(turn: Turn, cost: int) -> Subscription:
            now = self._clock()
            record = self._record(turn, id, ticket, now, force=force)
            changed = turn.change(record if filter is None else record._replace(filter=filter))
            if filter is not None:
                turn.forget_cost(record.id)
                self._charge(turn, changed, cost, now)
            before = kept = turn.details(record.id)
            if told is not None:
                kept = kept._replace(metadata=told)
            if pace is not None:
                kept = kept._replace(pace=pace_text(pace, changed.filter))
            check_kind(kept.pace, changed.filter)
            if kept != before:
                turn.keep_details(record.id, kept)
            return subscription_of(changed, kept)

        if filter is None:
            with self._store.turn() as turn:
                return change(turn, 0)
        check_texts("anybody", filter)
        return self._write_text(filter, change, warn=warn)

    def check(self, filter: str) -> Checked:  # noqa: A002
        """Check a text as `subscribe` does, without subscribing. Returns its kind, its cost and warnings.

        >>> Registry({"price": "double"}).check("price > 5")
        Checked(kind='filter', cost=0, warnings=())
        """
        check_texts("anybody", filter)
        self._known = read_schema(self._store, self._known)
        found, cost = self._examine(filter, self._known)
        return Checked(kind_of(filter).name, cost, tuple(found))

    def _write_text(self, text: str, write: Callable[[Turn, int], T], *, warn: bool) -> T:
        """Check a text, and write it in a turn in which the schema is the one that it was checked against."""
        known = self._known
        is_filter = kind_of(text) is FILTER
        found, cost = self._examine(text, known)
        for warning in found if warn else ():
            warnings.warn(warning, ExpensiveSubscription, stacklevel=3)
        while True:
            with self._store.turn() as turn:
                if not is_filter or turn.schema == known.text:
                    return write(turn, cost)
            # Somebody gave the registry its schema meanwhile.
            known = self._known = read_schema(self._store, known)
            _, cost = self._examine(text, known)

    def _examine(self, text: str, known: KnownSchema) -> Examined:
        """What a subscription will cost, with warnings. FilterError if it is wrong, or costs more than is allowed."""
        examined = kind_of(text).examine(text, self._rules(known))
        error = check_cost(text, examined.cost, self.limits) if examined.cost else None
        if error is not None:
            raise error
        return examined

    def _charge(self, turn: Turn, record: Record, cost: int, now: int) -> None:
        """Note what a subscription costs. FilterError if that is too much: then nothing is written."""
        if cost:
            charge(turn.connection, record, cost, self._limits, now)
            keep_costs(turn.connection, {record.id: cost})

    def _record(self, turn: Turn, sid: int, ticket: str | None, now: int, *, force: bool) -> Record:
        """The live subscription that the caller may change, as its ticket or `force` says."""
        number = as_int64(sid)
        record = None if number is None else turn.find(number, now)
        if not force:
            return check_ticket(record, sid, "" if ticket is None else ticket)
        if record is None:
            raise UnknownSubscription(f"no live subscription {sid}")
        return record

    def _rules(self, known: KnownSchema) -> Rules:
        return Rules(known.schema, known.operators, self.catalog)

    def renew(
        self,
        id: int,  # noqa: A002
        ticket: str | None = None,
        lease: Lease = DEFAULT_LEASE,
        *,
        force: bool = False,
    ) -> Subscription:
        """Give a subscription a new lease, from now on; it may be shorter than what was left of the old one.

        Raises TicketError if there is no live subscription with this id and ticket. A subscription whose lease has
        ended is gone: subscribe again. With `force`, meant for those who run the registry, no ticket is needed.

        >>> subs = Registry()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.renew(sid, ticket, lease="forever").expires is None
        True
        """
        lease_length(lease)
        with self._store.turn() as turn:
            now = self._clock()
            record = self._record(turn, id, ticket, now, force=force)
            renewed = turn.renew(record, lease_end(now, lease))
            return subscription_of(renewed, turn.details(record.id))

    def resync(
        self,
        id: int,  # noqa: A002
        ticket: str | None = None,
        *,
        force: bool = False,
    ) -> Subscription:
        """Ask that a select-join is sent everything again: for a subscriber that has lost its `JoinView`.

        The pipeline's next micro-batch tells the subscriber to forget what it holds, and sends all tuples that it is to
        hold. The view is then the SELECT's result, whatever it held before. Every pipeline that follows the registry
        does so, once for all that was asked before a micro-batch. It has done so when its report has the `sequence`
        that is returned here, or a later one.

        Raises TicketError as `renew` does, and RegistryError if the subscription is of another kind. With `force`,
        meant for those who run the registry, no ticket is needed.

        >>> from penstock import Catalog, Table
        >>> catalog = Catalog.of({"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol")})
        >>> subs = Registry(catalog=catalog)
        >>> sid, ticket = subs.subscribe("alice", "SELECT * FROM Stocks WHERE PER > 45")
        >>> subs.resync(sid, ticket).sequence
        2
        """
        with self._store.turn() as turn:
            record = self._record(turn, id, ticket, self._clock(), force=force)
            kind = kind_of(record.filter)
            if kind is not SELECT_JOIN:
                raise RegistryError(
                    f"subscription {id} is a {kind.name}: only select-joins have a view that can be sent again. What "
                    f"a {kind.name} was sent before stands in the sink"
                )
            return subscription_of(turn.resync(record), turn.details(record.id))

    def unsubscribe(self, id: int, ticket: str) -> None:  # noqa: A002
        """Remove a subscription. Raises TicketError as `renew` does.

        >>> subs = Registry()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.unsubscribe(sid, "guessed")
        Traceback (most recent call last):
        penstock.base.errors.TicketError: no live subscription 1 has this ticket: ...
        >>> subs.unsubscribe(sid, ticket)
        """
        with self._store.turn() as turn:
            now = self._clock()
            record = self._record(turn, id, ticket, now, force=False)
            turn.end(record, Ending("unsubscribed", "somebody who has its ticket did so", now))

    def remove(self, id: int) -> None:  # noqa: A002
        """Remove a subscription without its ticket: for those who run the registry, and so may write to its tables.

        It is needed for bulk-loaded subscriptions, which usually have no ticket, and for those whose rows can't be
        read. UnknownSubscription if there is no live subscription with this id.

        >>> subs = Registry()
        >>> subs.remove(subs.subscribe("alice", "price > 5").id)
        >>> len(subs)
        0
        """
        number = as_int64(id)
        with self._store.turn() as turn:
            now = self._clock()
            if number is None or not turn.is_there(number, now):
                raise UnknownSubscription(f"no live subscription {id}")
            turn.remove([number], Ending("removed", "whoever runs the registry did so", now))

    def sweep(self, history: Lease = DEFAULT_HISTORY) -> int:
        """Free the room of expired subscriptions. Returns how many there were.

        Also forgets how subscriptions ended, if that is longer ago than `history`. Nothing depends on a sweep: expired
        subscriptions don't match, and aren't listed, from the moment their lease ends. Run it once in a while on a
        registry with short leases.

        >>> Registry().sweep()
        0
        """
        kept = lease_length(history)
        with self._store.turn() as turn:
            now = self._clock()
            expired = turn.find_expired(now)
            turn.remove(
                expired, Ending("expired", "its lease ended, and nobody had renewed it", None)
            )
            forget_ends(turn.connection, now - kept)
        return len(expired)

    def load(
        self,
        source: Any,
        id: str | None = "id",  # noqa: A002
        subscriber: str = "subscriber",
        filter: str = "filter",  # noqa: A002
        lease: Lease = DEFAULT_LEASE,
        tickets: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        progress: bool | None = None,
        *,
        external_id: str | None = None,
        metadata: Sequence[str] | None = None,
        pace: str | None = None,
        replace: bool = False,
        source_name: str = "",
    ) -> LoadReport:
        """Add many subscriptions in one transaction, or change those that are there: all or, on any error, none.

        `source` is a Spark, pandas or Polars DataFrame, an Arrow table, the path of a Parquet file or folder, or of a
        file of JSON lines or CSV; `id`, `subscriber` and `filter` name its columns. With `id=None`, or without a column
        `id`, the registry assigns the ids. Without `tickets=True` no tickets are made: such subscriptions end with
        their lease, or those who run the registry end them.

        The same source can be loaded again: a row is recognised by its id or, with `external_id`, by its value in that
        column (the registry then assigns the ids). Subscriptions that differ are changed; all get a new lease. With
        `replace`, the subscriptions that an earlier load had and this one lacks are ended: those with an external id
        of the same `source_name`, and no others.

        All other columns are kept as the subscriptions' metadata, in texts. `metadata` names columns to keep instead of
        all; with `()` subscriptions keep the metadata they have. `pace` names the column with paces, which is NULL for
        no pace; without it subscriptions keep the paces they have.

        Bad rows: `on_error="raise"` raises SubscriptionErrors with all of them, `"skip"` loads the other rows and puts
        the bad ones into the report. `progress` shows a bar; by default if stderr is a terminal.

        >>> import pyarrow as pa
        >>> table = pa.table({"id": [7, 8], "user": ["alice", "bob"], "filter": ["price > 5", "price >"]})
        >>> report = Registry().load(table, subscriber="user", on_error="skip")
        >>> report.loaded, [id for id, error in report.errors]
        (1, [8])
        """
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is 'raise' or 'skip', not {on_error!r}")
        if isinstance(metadata, str):
            raise ValueError(f"metadata is a list of columns: [{metadata!r}]")
        if external_id is None and (replace or source_name):
            raise RegistryError(
                "only subscriptions with external ids are replaced, or have a source: name the column of external ids"
            )
        if source_name and (wrong := name_error(source_name, "name of the source")) is not None:
            raise RegistryError(wrong)
        options = LoadOptions(
            lease_length(lease), tickets, on_error == "skip", source_name, replace
        )
        columns = SourceColumns(
            id if external_id is None else None, subscriber, filter, external_id, metadata, pace
        )
        incoming = read_source(source, columns)
        while True:
            self._known = read_schema(self._store, self._known)
            rules = LoadRules(self._known, self._rules(self._known), self.limits)
            try:
                with progress_bar(len(incoming), progress) as bar:
                    return load_incoming(self._store, incoming, rules, options, self._clock, bar)
            except SchemaMoved:
                continue
