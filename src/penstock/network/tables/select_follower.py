"""Follows a select over tables that are published somewhere in the network: a `JoinView` that is kept up to date.

    with NetworkClient.connect(…) as client:
        follower = SelectFollower(client, "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE …", catalog)
        for changes in follower.read():         the rows that came and went
            …
        follower.view.rows()                    all of them

At rest the view is what the SELECT gives; while changes are on their way it may have some of them and not yet others,
since brokers promise no order. A process that starts again begins with an empty view, and is sent all of it.
"""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.base.arrays import distinct
from penstock.joins.catalog import Catalog
from penstock.joins.join_view import JoinView, RowChanges
from penstock.network.links.link import NetworkError
from penstock.network.network_client import NetworkClient, ReceivedMail
from penstock.network.tables.followed_select import FollowedSelect
from penstock.network.tables.table_events import PUBLISHER, check_schema, follower_number


class SelectFollower:
    """See the module. For one thread.

    `number` is the client's own number for this select. Its subscriptions have this number and the negative one, its
    advertisement has this number. If the client follows several selects, or subscribes to filters as well, its mail is
    read by the caller, who gives each follower all of it (`take`).
    """

    def __init__(
        self,
        client: NetworkClient,
        select: str,
        catalog: Catalog,
        *,
        publisher: str = PUBLISHER,
        number: int = 1,
    ) -> None:
        check_schema(client.schema, catalog)
        follower = follower_number(client.broker, client.name, number)
        self._client, self._number = client, number
        self._followed = FollowedSelect(select, catalog, publisher, follower, time.time_ns())
        self._dropped = client.dropped
        to_all, to_this = self._followed.filters
        client.subscribe(number, to_all)
        client.subscribe(-number, to_this)
        client.advertise(number, self._followed.advertisement)
        self._followed.ask()
        self._flush()

    @property
    def view(self) -> JoinView:
        """The result as it is now."""
        return self._followed.view

    @property
    def is_complete(self) -> bool:
        """Whether the view has all that the publisher had when it was asked last. False if there is no publisher."""
        return self._followed.is_complete and self._client.dropped == self._dropped

    def read(self, timeout: float | None = None) -> Iterator[RowChanges]:
        """Yields what each mail changes, perhaps nothing. Ends if none comes for `timeout` seconds.

        NetworkError if the publisher refuses the select.
        """
        for mail in self._client.read(timeout):
            changes = self.take(mail)
            self._client.done(mail)
            yield changes

    def take(self, mail: ReceivedMail) -> RowChanges:
        """Apply some mail. Returns what it changes. Events that aren't for this follower are left out."""
        mine = distinct(mail.rows[np.abs(mail.subscriptions) == self._number])
        changes = self._followed.take(mail.events.take(pa.array(mine)).to_pylist())
        if self._client.dropped != self._dropped and not self._client.has_mail:
            # Not before all mail is read: the answer would find as little room as the mail that was dropped.
            self._dropped = self._client.dropped
            self._followed.ask()
        self._flush()
        if self._followed.refused is not None:
            raise NetworkError(f"the publisher refuses the select: {self._followed.refused}")
        return changes

    def leave(self) -> None:
        """Follow no longer: neither the broker nor the publisher knows of this select from now on."""
        self._followed.leave()
        self._flush()
        self._client.unsubscribe(self._number)
        self._client.unsubscribe(-self._number)
        self._client.withdraw(self._number)

    def _flush(self) -> None:
        if self._followed.outgoing:
            self._client.publish(self._followed.outgoing)
            self._followed.outgoing.clear()
