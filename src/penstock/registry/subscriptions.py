"""`Subscriptions`, the class that users work with: a registry, and all that is made of the filters in it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import SchemaError, SubscriptionErrors
from penstock.language import Schema, SchemaLike
from penstock.matching.subscription_rows import EVER
from penstock.operators.strategies import DEFAULT_STRATEGY
from penstock.registry.registry import Registry

if TYPE_CHECKING:
    from penstock.covering.report import Covering
    from penstock.covering.spread_search import Workers
    from penstock.matching import LiveMatcher, Matcher, Published


class Subscriptions(Registry):
    """A registry of subscriptions: in memory, or by `open` in a file or a PostgreSQL database.

    Several threads can use it at once and, if it isn't in memory, several processes. Filters may call `operators`:
    `penstock.Operators`, a list of them, a module, or a module's name. With a `catalog` of tables, it also takes
    select-joins.

    >>> subs = Subscriptions({"symbol": "string", "price": "double"})
    >>> sid, ticket = subs.subscribe("alice", "symbol = 'GOOG' AND price BETWEEN 500 AND 600")
    >>> matcher = subs.compile()
    >>> matcher.match({"symbol": "GOOG", "price": 550.0}) == [sid]
    True
    >>> subs.unsubscribe(sid, ticket)
    >>> len(subs)
    0
    """

    def compile(
        self,
        schema: SchemaLike | None = None,
        engine: str = "auto",
        threads: int = 1,
        strategy: str = DEFAULT_STRATEGY,
    ) -> "Matcher":
        """A matcher for the subscriptions as they are now. It matches large batches with several `threads`.

        `strategy` is the order in which operators are called. Raises SubscriptionErrors with all filters that don't fit
        the schema.

        >>> subs = Subscriptions(); sid, ticket = subs.subscribe("alice", "price > 5")
        >>> subs.compile({"price": "double"}).match({"price": 6.0})
        [1]
        """
        from penstock.matching import Matcher, compile_plan

        rows = self.active()
        plan, errors = compile_plan(rows, self._event_schema(schema))
        if errors:
            raise SubscriptionErrors(errors)
        return Matcher(plan, engine, threads, self.operators, strategy)

    def live(
        self, schema: SchemaLike | None = None, engine: str = "auto", threads: int = 1
    ) -> "LiveMatcher":
        """A matcher that can follow later changes, each in microseconds; see `LiveMatcher`.

        >>> subs = Subscriptions(); live = subs.live({"price": "double"})
        >>> sid, ticket = subs.subscribe("alice", "price > 5")
        >>> live.follow(subs)
        >>> live.match({"price": 6.0})
        [1]
        """
        from penstock.matching import LiveMatcher

        known = self._event_schema(schema)
        try:
            return LiveMatcher(known, self.active(EVER), engine, threads, self.operators)
        except SubscriptionErrors:  # perhaps only subscriptions that have ended don't fit
            return LiveMatcher(known, self.active(), engine, threads, self.operators)

    def covering(
        self,
        schema: SchemaLike | None = None,
        *,
        spark: "Workers | None" = None,
        folder: str | os.PathLike[str] | None = None,
        progress: "Callable[[int], None] | None" = None,
    ) -> "Covering":
        """Which subscriptions no other covers, which one covers each of the rest, and how many could be left out.

        For a million, it takes seconds in this process. With a `spark` session, its workers share the work. They read
        it from `folder`, which on a cluster must be one that all can read. `progress` is called with how many are done.

        >>> subs = Subscriptions({"price": "double"})
        >>> for filter_ in ("price > 5", "price > 6"): _ = subs.subscribe("alice", filter_)
        >>> subs.covering().covered
        array([2])
        """
        from penstock.covering.report import covering

        known = self._event_schema(schema)
        if spark is None:
            return covering(self.active(), known)
        from penstock.covering.spread_search import covering_on_spark

        place = None if folder is None else Path(folder)
        return covering_on_spark(spark, self.active(), known, folder=place, progress=progress)

    def snapshot(self, schema: SchemaLike | None, folder: str | os.PathLike[str]) -> "Published":
        """Publish the subscriptions as they are now into a folder of snapshots.

        Returns where the snapshot is (`ref`), and which subscriptions were left out as they don't fit (`errors`).

        >>> import tempfile; folder = tempfile.TemporaryDirectory()
        >>> subs = Subscriptions(); _ = subs.subscribe("alice", "price > 5")
        >>> ref, errors = subs.snapshot({"price": "double"}, folder.name)
        >>> ref.version, ref.sequence, errors
        (1, 1, [])
        >>> folder.cleanup()
        """
        from penstock.matching import SnapshotStore

        return SnapshotStore(os.fspath(folder)).publish(self, self._event_schema(schema))

    def _event_schema(self, schema: SchemaLike | None) -> Schema:
        found = self.schema if schema is None else Schema.of(schema)
        if found is None:
            raise SchemaError(
                "the registry has no schema: give the one of the events, "
                "for example {'symbol': 'string', 'price': 'double'}"
            )
        return found.with_operators(self.operators.signatures)
