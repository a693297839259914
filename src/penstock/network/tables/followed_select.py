"""A select that is followed through the network: events in, a `JoinView` and asks out. No thread, clock or disk.

The view takes messages in any order (`joins.versioned_view`). It asks the publisher for all that it must hold

- when its filter is settled everywhere: from then on it misses no message;
- when the publisher says that it has started, since it then knows of no followers;
- when the broker has dropped mail that nobody took;
- when it remembers more tombstones than tuples that it holds: an answer lets it forget all that is older. What is sent
  for that reason is less than what has come since the last answer.

If no publisher is there, nobody answers; a publisher that starts says so.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Catalog
from penstock.joins.join_view import RowChanges
from penstock.joins.messages import Message
from penstock.joins.routed_messages import RoutedMessage, read_routed
from penstock.joins.versioned_view import VersionedView
from penstock.network.tables.table_events import (
    ASKED,
    LEFT,
    REFUSED,
    RESET,
    STARTED,
    addressed_filter,
    asks_filter,
    followed_filter,
)

_log = logging.getLogger("penstock.network")

_FEW_TOMBSTONES = 10_000


class FollowedSelect:
    """See the module. Messages to be published gather in `outgoing`.

    `follower` is its number in the network, `asked` a number higher than those of all its earlier asks.
    """

    def __init__(
        self, select: str, catalog: Catalog, publisher: str, follower: int, asked: int
    ) -> None:
        self.view = VersionedView(select, catalog)
        self.outgoing: list[RoutedMessage] = []
        self.refused: str | None = None
        """Why the publisher doesn't serve the select, if it doesn't."""
        self._catalog, self._publisher, self._follower = catalog, publisher, follower
        self._asked = asked
        # The answer to the last ask: its version, how many tuples.
        self._answer: tuple[int, int] | None = None
        self._came: dict[int, set[int]] = {}  # by version: which tuples of an answer have come
        self._is_complete = False

    @property
    def filters(self) -> tuple[str, str]:
        """The filters to subscribe to: for what all followers of such a select get, and for what only this one gets."""
        join = self.view.select.join
        return (
            followed_filter(join, self._catalog, self._publisher),
            addressed_filter(self._publisher, self._follower),
        )

    @property
    def advertisement(self) -> str:
        return asks_filter(self._publisher)

    @property
    def is_complete(self) -> bool:
        """Whether everything has come that the publisher sent in answer to the last ask."""
        return self._is_complete

    def ask(self) -> None:
        """Ask for everything that the view must hold."""
        self._say(ASKED, version=self.view.newest, text=self.view.select.text)
        self._answer, self._is_complete = None, False

    def leave(self) -> None:
        """Follow no longer."""
        self._say(LEFT)

    def take(self, events: Iterable[Mapping[str, Any]]) -> RowChanges:
        """Take events that have come. Returns what they change of the result.

        Events that aren't messages to this view are logged and left out.
        """
        messages: list[tuple[int, Message]] = []
        must_ask = False
        for event in events:
            if event["form"] == STARTED:
                must_ask = True
            elif event["form"] == REFUSED:
                if event["asked"] == self._asked:
                    self.refused = event["text"]
            elif (message := self._read(event)) is not None:
                messages.append(message)
        changes = self.view.apply_versions(messages)
        self._complete()
        held = sum(self.view.held().values())
        if must_ask or (self._is_complete and self.view.tombstones > held + _FEW_TOMBSTONES):
            self.ask()
        return changes

    def _read(self, event: Mapping[str, Any]) -> tuple[int, Message] | None:
        """The message of an event, and its version; None if the view can't take it."""
        try:
            version, message = event["version"], read_routed(event, self._catalog)
            self.view.check(message)
            if not isinstance(version, int):
                raise SchemaError("a message without a version")
        except SchemaError as error:
            # Perhaps another select was followed under this number, or another process publishes under this name.
            _log.warning("%s: left out: %s", self._publisher, error)
            return None
        if event["to"] is not None:
            self._note_answer(event)
        return version, message

    def _note_answer(self, event: Mapping[str, Any]) -> None:
        if event["form"] != RESET:
            if not self._is_complete:
                self._came.setdefault(event["version"], set()).add(event["count"])
        elif event["asked"] == self._asked:
            self._answer = event["version"], event["count"]

    def _complete(self) -> None:
        if self._answer is not None and not self._is_complete:
            version, count = self._answer
            if len(self._came.get(version, ())) == count:
                self._is_complete = True
                self._came.clear()

    def _say(self, form: int, **more: Any) -> None:
        self._asked += 1
        said = {"form": form, "to": self._follower, "asked": self._asked, **more}
        self.outgoing.append({**said, "publisher": self._publisher})
