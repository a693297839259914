"""How a broker stands: what `Broker.status()` says, for `penstock broker status`, metrics and the dashboard."""

from msgspec import Struct


class NeighbourStatus(Struct, frozen=True, kw_only=True):
    """One link: what came over it, what was told over it, what passed."""

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
    """subscriptions that it isn't told, since others cover them"""
    mergers: int = 0
    """of what it is told, how many stand for several"""
    events_in: int = 0
    events_out: int = 0
    in_vain: int = 0
    """events that it sent and nobody behind here wanted"""
    payload_hits: int = 0
    """payloads that it was spared, since it had them"""


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
