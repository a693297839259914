"""The status of a broker: its tables and its links in figures, for `penstock broker status` and the dashboard."""

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from penstock.network.broker import Broker
    from penstock.network.open_link import OpenLink


class NeighbourStatus(Struct, frozen=True, kw_only=True):
    """One link: what came over it, what was told over it, how many events passed."""

    name: str
    is_parent: bool = False
    is_up: bool = False
    reach: list[str] = []
    """brokers behind it"""
    advertisements_in: int = 0
    """received from it (SRT)"""
    subscriptions_in: int = 0
    """received from it (PRT)"""
    advertisements_out: int = 0
    """told to it"""
    subscriptions_out: int = 0
    """told to it, mergers included"""
    covered: int = 0
    """subscriptions that it isn't told, since others cover them or mergers stand for them"""
    mergers: int = 0
    """subscriptions told to it that stand for several"""
    events_in: int = 0
    events_out: int = 0
    in_vain: int = 0
    """events that it sent and that nobody on this side wanted"""
    payload_hits: int = 0
    """payloads that weren't sent to it, since it had them"""


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """The broker, and each of its links."""

    parent: str | None = None
    neighbours: list[NeighbourStatus] = []
    lost: list[str] = []
    """brokers that can't be reached, and that are waited for"""
    outbox_events: int = 0
    outbox_bytes: int = 0
    subscriptions: int = 0
    """of its own clients"""
    advertisements: int = 0
    """of its own clients"""


def read_status(broker: "Broker") -> BrokerStatus:
    """The status of a broker. Only the thread that steps it may call this."""
    tables, events, parent = broker.tables, broker.events, broker.parent
    return BrokerStatus(
        parent=parent,
        neighbours=[_neighbour(link, parent) for link in tables.links.values()],
        lost=sorted(broker.lost),
        outbox_events=events.kept_events,
        outbox_bytes=events.outbox_bytes,
        subscriptions=len(tables.clients),
        advertisements=len(tables.advertised),
    )


def _neighbour(link: "OpenLink", parent: str | None) -> NeighbourStatus:
    table = link.told_subscriptions
    told = [number for number, _ in table.entries()]
    mergers = table.mergers
    return NeighbourStatus(
        name=link.name,
        is_parent=link.name == parent,
        is_up=link.is_up,
        reach=sorted(link.names),
        advertisements_in=len(link.advertisements),
        subscriptions_in=len(link.entries),
        advertisements_out=sum(1 for _ in link.told_advertisements.entries()),
        subscriptions_out=len(told),
        covered=sum(1 for _ in table.numbers()) - (len(told) - mergers),
        mergers=mergers,
        events_in=link.events_in,
        events_out=link.events_out,
        in_vain=link.events_in_vain,
        payload_hits=link.payloads_spared,
    )
