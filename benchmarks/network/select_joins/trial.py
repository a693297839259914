"""One scheme on one workload over a network: what crosses its links.

    tables filled ──> events ──> messages ──> who reads them ──> nodes ──> links crossed
                      the schemes of `benchmarks.baselines.joins`          `flows`, `can`

Counted as the paper does (§6): *traffic* is bytes transferred between overlay nodes, a message as often as it crosses a
link between two of them; *hops* is how many messages do; *stress* is what leaves the server. What Enum-J and Enum-SJ
send goes straight from the server to each subscriber's node, one hop. Bytes are those of tuples that come, a number
counting as 4 (`benchmarks.baselines.joins.traffic`); what tuples that go cost stands beside them.

Besides: traffic over the links of the underlying network; traffic if subscribers are anywhere instead of at nodes by
zones; traffic in a content-addressable network of the same zones, where a message goes to all zones of its region.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.baselines.joins.results import JOINED, ResultSender
from benchmarks.baselines.joins.schemes import SchemeProcessor
from benchmarks.baselines.joins.traffic import content_bytes, description_bytes
from benchmarks.joins.published import TITLES
from benchmarks.joins.workload import Workload
from benchmarks.network.select_joins.can import (
    ContentAddressableNetwork,
    addressable_network,
    region_hops,
    regions,
)
from benchmarks.network.select_joins.flows import shared_flow, unicast_flow
from benchmarks.network.select_joins.topology import DisseminationTree
from benchmarks.network.select_joins.zones import (
    anywhere,
    by_zones,
    split_zones,
    subscription_points,
)
from penstock.base.arrays import Int64s
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import ADDED
from penstock.joins.notifications import Notifications, Part
from penstock.joins.readers import Readers

_AT_ONCE = 16  # events whose readers are in memory together
_FEWER = {"enum-j": 4, "ref-j": 2}  # events at once, by so many times


@dataclass(frozen=True, slots=True)
class TrafficTrial:
    """What one scheme did, per event. `at` is what is varied."""

    scheme: str
    at: float
    subscriptions: int
    events: int
    traffic: float  # bytes between overlay nodes
    going: float  # the same, for tuples that go
    hops: float
    stress: float  # bytes that leave the server
    last_hop: float  # bytes to clients, with what comes before
    links: float  # bytes over links of the underlying network
    scattered: float  # traffic, if subscribers are anywhere
    tuple_hops: float  # tuples, with their payload, between overlay nodes
    way: float  # hops of a message to a reader
    can_traffic: float = 0.0
    can_hops: float = 0.0
    can_stress: float = 0.0
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def title(self) -> str:
        return self.label or TITLES[self.scheme]


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the subscriptions of a workload are, in either network."""

    tree: DisseminationTree
    node_of: Int64s
    scattered: Int64s
    can: ContentAddressableNetwork | None = None
    bases: tuple[str, ...] = ()  # tables, in the order of the network's dimensions


def place_subscriptions(
    workload: Workload, tree: DisseminationTree, has_can: bool = True
) -> Placement:
    """Subscriptions by zones of all attributes that they have ranges for; ids count from 0.

    A content-addressable network has the four dimensions of a binary join.
    """
    attributes = list(
        dict.fromkeys(
            (side.table, name)
            for _, join in workload.joins
            for side in join.sides
            for name, _ in side.ranges
        )
    )
    points = subscription_points(workload.joins, attributes)
    zones = split_zones(points, len(tree) - 1)
    can = addressable_network(zones) if has_can and len(attributes) == 2 else None
    tables = tuple(table for table, _ in attributes)
    scattered = anywhere(len(workload.joins), tree)
    return Placement(tree, by_zones(zones, tree), scattered, can, tables)


class _Sums:
    """What has crossed links so far."""

    def __init__(self, placement: Placement, is_unicast: bool) -> None:
        self._placement = placement
        self._flow = unicast_flow if is_unicast else shared_flow
        self._is_unicast = is_unicast
        self.events = 0
        self.found = dict.fromkeys(
            (
                "traffic", "going", "hops", "stress", "last_hop", "links", "scattered",
                "tuple_hops", "can_traffic", "can_hops", "can_stress",
            ),
            0.0,
        )  # fmt: skip
        self._way = self._readers = 0

    def count(self, notified: Notifications) -> None:
        for part, readers in zip(notified.parts, notified.readers(), strict=True):
            sids = notified.ids[readers.numbers]
            self._part(part, readers, sids)

    def _part(self, part: Part, readers: Readers, sids: Int64s) -> None:
        placement, messages, add = self._placement, part.messages, self.found
        come = messages.kind == ADDED
        sizes = content_bytes(part)
        if not self._is_unicast:
            sizes = sizes + description_bytes(messages)
        flow = self._flow(readers, placement.node_of[sids], placement.tree)
        crossed = flow.hops * sizes
        add["traffic"] += float(crossed[come].sum())
        add["going"] += float(crossed[~come].sum())
        add["hops"] += float(flow.hops[come].sum())
        add["stress"] += float((flow.leaving * sizes)[come].sum())
        clients = 0 if self._is_unicast else content_bytes(part) * flow.readers
        add["last_hop"] += float((crossed + clients)[come].sum())
        add["links"] += float((flow.links * sizes)[come].sum())
        each = messages.tuples.shape[1] if messages.tuples.ndim > 1 else 1
        add["tuple_hops"] += float(flow.hops[come].sum()) * each
        other = self._flow(readers, placement.scattered[sids], placement.tree)
        add["scattered"] += float((other.hops * sizes)[come].sum())
        self._way += int(flow.way[come].sum())
        self._readers += int(flow.readers[come].sum())
        if placement.can is not None and not self._is_unicast:
            self._addressed(placement.can, part, sizes)

    def _addressed(self, can: ContentAddressableNetwork, part: Part, sizes: Int64s) -> None:
        messages = part.messages
        come = np.flatnonzero(messages.kind == ADDED)
        if not len(come):
            return
        is_joined = bool((messages.form == JOINED).any())
        sender: Any = part.sender
        is_result = isinstance(sender, ResultSender)
        base = sender.group.states[0].name if is_result else sender.base.name
        some = messages.take(come)
        start, boxes = regions(some, is_joined, base != self._placement.bases[0])
        hops, leaving = np.zeros(len(come), np.int64), np.zeros(len(come), np.int64)
        region_hops(can, start, boxes, hops, leaving)
        self.found["can_traffic"] += float((hops * sizes[come]).sum())
        self.found["can_hops"] += float(hops.sum())
        self.found["can_stress"] += float((leaving * sizes[come]).sum())

    def trial(self, scheme: str, at: float, subscriptions: int, label: str) -> TrafficTrial:
        count = max(1, self.events)
        means = {name: value / count for name, value in self.found.items()}
        way = self._way / max(1, self._readers)
        return TrafficTrial(scheme, at, subscriptions, count, way=way, label=label, **means)


def try_network(
    workload: Workload,
    scheme: str,
    events: int,
    at: float,
    placement: Placement,
    decomposition: Decomposition | None = None,
    label: str = "",
) -> TrafficTrial:
    """Fill the tables, and count what some events bring over the links."""
    processor = SchemeProcessor(workload.catalog, workload.joins, scheme, decomposition)
    processor.restore(workload.content)
    sums = _Sums(placement, processor.is_unicast)
    for batch in workload.batches(0, events, max(1, _AT_ONCE // _FEWER.get(scheme, 1))):
        sums.count(processor.process([batch]))
        sums.events += len(batch) // 2
    return sums.trial(scheme, at, len(workload.joins), label)


def times_ours(found: Sequence[TrafficTrial], trial: TrafficTrial, name: str, ours: str) -> float:
    """How many times as much a scheme has as ours at the same place."""
    best = next((t for t in found if t.at == trial.at and t.scheme == ours), None)
    mine, its = float(getattr(trial, name)), float(getattr(best, name, 0.0))
    return mine / its if its else math.inf if mine else 1.0
