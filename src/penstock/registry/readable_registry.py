"""The registry as readers see it: how it is opened, what it knows, its subscriptions, what has changed.

`registry.Registry` adds the methods that write.
"""

import builtins
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, starmap
from typing import Any, Self

from sqlalchemy.engine import URL

from penstock.base.durations import utc_now
from penstock.base.errors import RegistryError, UnknownSubscription
from penstock.joins.catalog import Catalog
from penstock.language import Schema, SchemaLike
from penstock.matching.subscription_rows import Changes, Rows
from penstock.operators.define import Operators, OperatorsLike
from penstock.registry.addresses import AddressedStore
from penstock.registry.catalogs import keep_catalog, read_catalog
from penstock.registry.database_urls import database_of
from penstock.registry.history import Ended
from penstock.registry.kind_sources import PatternSource, SelectSource
from penstock.registry.kinds import FILTER, KINDS, changes_of_kind, kind_of, rows_of_kind
from penstock.registry.limits import Limits, as_int64
from penstock.registry.paces import Pace
from penstock.registry.records import NO_DETAILS, Subscription, subscription_of, utc_time
from penstock.registry.schemas import KnownSchema, keep_schema, read_schema
from penstock.registry.set_aside import SetAside, read_set_aside
from penstock.registry.spending import read_limits
from penstock.registry.store import Store
from penstock.registry.tickets import check_ticket, ticket_fits


class ReadableRegistry:
    """Subscriptions by their ids, to be read."""

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        catalog: Catalog | None = None,
        operators: OperatorsLike = None,
        clock: Callable[[], int] = utc_now,
        store: Store | None = None,
    ) -> None:
        self._store = Store(database_of(None)) if store is None else store
        self._clock = clock
        self.operators = Operators.of(operators)
        signatures = self.operators.signatures
        if schema is None:
            self._known = read_schema(self._store, KnownSchema(None, None, signatures))
        else:
            wanted = Schema.of(schema).with_operators(signatures)
            self._known = keep_schema(self._store, wanted, clock())
        self._catalog = None if catalog is None else keep_catalog(self._store, catalog)
        self._limits = Limits()

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | URL,
        schema: SchemaLike | None = None,
        *,
        create: bool = True,
        catalog: Catalog | None = None,
        operators: OperatorsLike = None,
        clock: Callable[[], int] = utc_now,
    ) -> Self:
        """Open a registry, and make it if it isn't there (with `create=False`, that is an error).

        `url` is the path of a file, `sqlite:///subs.db`, or `postgresql://user@host/database`. A `schema` is kept in
        the registry, and read back when it is opened without one; another one than the registry has is an error. The
        same holds for a `catalog`. `operators` are those that filters may call, as in `Subscriptions`. They aren't kept
        in the registry: everyone who opens it gives them.

        >>> from penstock import Subscriptions
        >>> import tempfile; folder = tempfile.TemporaryDirectory()
        >>> with Subscriptions.open(f"{folder.name}/subs.db", {"price": "double"}) as subs:
        ...     subscribed = subs.subscribe("alice", "price > 5")
        >>> with Subscriptions.open(f"{folder.name}/subs.db") as subs:
        ...     subs.get(subscribed.id).filter
        'price > 5'
        >>> folder.cleanup()
        """
        store = Store(database_of(url), create)
        try:
            return cls(schema, catalog=catalog, operators=operators, clock=clock, store=store)
        except BaseException:
            store.close()
            raise

    @property
    def url(self) -> str | None:
        """Where the registry is, password and all: enough to open it again. None in memory."""
        url = self._store.database.url
        return None if url is None else url.render_as_string(hide_password=False)

    @property
    def schema(self) -> Schema | None:
        """The schema that filters are checked against, if the registry has one."""
        self._known = read_schema(self._store, self._known)
        return self._known.schema

    @property
    def catalog(self) -> Catalog | None:
        """The tables that select-joins may name, if the registry has a catalogue."""
        if self._catalog is None:
            self._catalog = read_catalog(self._store)
        return self._catalog

    @property
    def limits(self) -> Limits:
        """What subscriptions may cost; `set_limits` changes it, for all who use the registry.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> subs.set_limits(Limits(subscription=100))
        >>> subs.limits.subscription
        100
        """
        self._limits = read_limits(self._store)
        return self._limits

    @property
    def identity(self) -> str:
        """Names this registry for ever, wherever it is moved to."""
        return self._store.identity

    def with_metadata(self) -> Self:
        """The same registry, for a pipeline whose notifications carry metadata.

        Its subscribers, in `active` and `changes` of every kind, are addresses: names with metadata
        (`registry.addresses`).

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> _ = subs.subscribe("alice", "price > 5", metadata={"email": "a@b.c"})
        >>> subs.with_metadata().active().subscribers[0].as_py()
        'alice\\x00{"email":"a@b.c"}'
        """
        addressed = type(self).__new__(type(self))  # not a copy, which would open it once more
        addressed.__dict__.update(self.__dict__, _store=AddressedStore(self._store))
        return addressed

    @property
    def selects(self) -> SelectSource:
        """The select-joins, which `active`, `changes` and all that compiles filters leave out.

        >>> from penstock import Subscriptions
        >>> from penstock import Catalog, Table
        >>> catalog = Catalog.of({"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol")})
        >>> subs = Subscriptions(catalog=catalog)
        >>> sid, ticket = subs.subscribe("alice", "SELECT * FROM Stocks WHERE PER > 45")
        >>> subs.selects.joins()[sid].join.tables, len(subs.active())
        (('Stocks',), 0)
        """
        return SelectSource(self._store, self._clock, self.catalog)

    @property
    def patterns(self) -> PatternSource:
        """The tree patterns, which `active`, `changes` and all that compiles filters leave out.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> sid, ticket = subs.subscribe("alice", "//item[author{val}]")
        >>> len(subs.patterns.trees()[sid].nodes), len(subs.active())
        (2, 0)
        """
        return PatternSource(self._store, self._clock)

    def refused(self, scan: bool = True) -> builtins.list[SetAside]:
        """The subscriptions that aren't matched, and why: they were set aside, or their rows can't be read.

        Others may not fit the events, but that depends on the events: a pipeline's metrics have those. To find rows
        that can't be read, all rows are scanned, unless `scan` is False.
        """
        found = read_set_aside(self._store)
        if scan:
            now = utc_time(self._clock())
            found += [
                SetAside(row.id, row.subscriber, row.filter, row.error().reason, now)
                for row in self._store.bad_rows()
            ]
        return found

    def ended(self, id: int) -> Ended | None:  # noqa: A002
        """How a subscription that isn't there any more has ended, if the history still has it.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.unsubscribe(sid, ticket)
        >>> subs.ended(sid).how
        'unsubscribed'
        """
        number = as_int64(id)
        return None if number is None else self._store.find_end(number)

    def get(self, id: int) -> Subscription:  # noqa: A002
        """The live subscription with this id, or UnknownSubscription.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> subs.get(subs.subscribe("alice", "price > 5").id).subscriber
        'alice'
        """
        number = as_int64(id)
        found = None if number is None else self._store.find(number, self._clock())
        if found is None:
            raise UnknownSubscription(
                f"there is no live subscription {id}: list them to see which there are"
            )
        return subscription_of(*found)

    def authenticate(self, id: int, ticket: str) -> Subscription:  # noqa: A002
        """The live subscription with this id, if the ticket is its own. This only reads, and waits for no writer.

        Raises TicketError as `renew` does: the same error, after the same time, whether there is such a subscription or
        not.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.authenticate(sid, ticket).subscriber
        'alice'
        """
        number = as_int64(id)
        found = None if number is None else self._store.find(number, self._clock())
        record, kept = (None, NO_DETAILS) if found is None else found
        return subscription_of(check_ticket(record, id, ticket), kept)

    def find_by_ticket(self, subscriber: str, ticket: str) -> Subscription | None:
        """The live subscription of a subscriber that has this ticket. All that the subscriber has are looked through.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.find_by_ticket("alice", ticket).id, subs.find_by_ticket("bob", ticket)
        (1, None)
        """
        for record, kept in self._store.records(subscriber, self._clock(), None):
            if ticket_fits(ticket, record.ticket):
                return subscription_of(record, kept)
        return None

    def ids_of(self, subscriber: str, limit: int) -> tuple[int, ...]:
        """The ids of a subscriber's live subscriptions, in order, `limit` at most.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5")
        >>> subs.ids_of("alice", limit=10)
        (1,)
        """
        return self._store.ids_of(subscriber, self._clock(), limit)

    def count_of(self, subscriber: str) -> int:
        """How many live subscriptions a subscriber has.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5")
        >>> subs.count_of("alice"), subs.count_of("bob")
        (1, 0)
        """
        return self._store.count(self._clock(), subscriber)

    def __len__(self) -> int:
        return self._store.count(self._clock())

    def __bool__(self) -> bool:
        return True  # a registry is a registry even when it is empty

    def sequence(self) -> int:
        """The number of the last change. Changes are numbered 1, 2, 3 … in the order in which they were committed.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5"); subs.sequence()
        1
        """
        return self._store.head().sequence

    def active(self, now: int | None = None) -> Rows:
        """All the filters whose lease ends after `now` (UTC microseconds; default: the clock), in columns.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5")
        >>> subs.active().ids
        array([1])
        """
        return rows_of_kind(self._store.active(self._clock() if now is None else now), FILTER)

    def changes(self, since: int) -> Changes:
        """What changed after change number `since`: each filter once, in its last state.

        Expiry is no change: an upsert may have expired meanwhile, as its `expires` says.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.unsubscribe(sid, ticket)
        >>> changes = subs.changes(since=1)
        >>> changes.sequence, len(changes.upserts), changes.removed
        (2, 0, array([1]))
        """
        return changes_of_kind(self._store.changes(since), FILTER)

    def paces(self, kind: str | None = None) -> dict[int, Pace]:
        """The paces of subscriptions by id, of all kinds or of one. Those without a pace aren't among them.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5", pace="10 per hour")
        >>> subs.paces()[1].most
        10
        """
        found = self._store.paces()
        return {
            sid: Pace.of(pace)
            for sid, pace, text in found
            if kind is None or kind_of(text).name == kind
        }

    def held(self, id: int) -> int:  # noqa: A002
        """How many notifications pipelines have held back of a subscription because of its pace.

        Those that went into digests, whole or counted, aren't among them.
        """
        number = as_int64(id)
        return 0 if number is None else self._store.held([number]).get(number, 0)

    def note_held(self, pipeline: str, held: Mapping[int, int]) -> None:
        """Note how many notifications a pipeline has held back since it began, by subscription: `held` adds them up."""
        self._store.note_held(pipeline, held, self._clock())

    def close(self) -> None:
        """Give the connections back. In memory, that is the end of the subscriptions.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions(); subs.close(); len(subs)
        Traceback (most recent call last):
        penstock.base.errors.RegistryError: the registry in memory is closed: open it again
        """
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._store.database}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.url is None:
            raise RegistryError(
                "a registry in memory can't be sent to another process: open one by URL instead, "
                "Subscriptions.open('sqlite:///subs.db')"
            )
        reopen = functools.partial(
            type(self).open, create=False, clock=self._clock, operators=tuple(self.operators)
        )
        if isinstance(self._store, AddressedStore):
            return _reopen_with_metadata, (reopen, self.url)
        return reopen, (self.url,)

    def list(
        self,
        subscriber: str | None = None,
        limit: int | None = None,
        include_expired: bool = False,
        kind: str | None = None,
        after: int | None = None,
    ) -> Iterator[Subscription]:
        """The subscriptions in order of id: all, one subscriber's, or those of one kind. Read page by page as you go.

        `after` leaves out those up to this id.

        >>> from penstock import Subscriptions
        >>> subs = Subscriptions()
        >>> for name in ("alice", "bob"): _ = subs.subscribe(name, "price > 5")
        >>> [found.id for found in subs.list("bob")]
        [2]
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: it can't be negative")
        if kind is not None and kind not in (known := [one.name for one in KINDS]):
            raise ValueError(f"there is no kind {kind!r}: give {', '.join(known)}")
        now = None if include_expired else self._clock()
        if kind is None:
            return starmap(subscription_of, self._store.records(subscriber, now, limit, after))
        found = starmap(subscription_of, self._store.records(subscriber, now, None, after))
        return islice((one for one in found if one.kind == kind), limit)


def _reopen_with_metadata(reopen: Callable[[str], ReadableRegistry], url: str) -> ReadableRegistry:
    return reopen(url).with_metadata()
