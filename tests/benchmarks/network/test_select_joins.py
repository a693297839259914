"""The benchmarks of select-joins over a network, on workloads small enough for a test: what they count."""

from dataclasses import replace

import numpy as np
import pytest
from tests.benchmarks.conftest import Bench

from benchmarks.benchmark import Findings, unseen
from benchmarks.joins import synthetic
from benchmarks.joins.synthetic import Recipe
from benchmarks.joins.workload import Workload
from benchmarks.network.benchmark import BENCHMARK
from benchmarks.network.select_joins.can import addressable_network, region_hops, regions
from benchmarks.network.select_joins.experiments import EXPERIMENTS, JoinsWork
from benchmarks.network.select_joins.published import OURS
from benchmarks.network.select_joins.star_network import try_star_network
from benchmarks.network.select_joins.topology import DisseminationTree, internet_tree
from benchmarks.network.select_joins.trial import Placement, place_subscriptions, try_network
from benchmarks.network.select_joins.zones import split_zones, subscription_points
from penstock.joins.messages import ADDED
from penstock.joins.processor import Processor

SMALL = Recipe(subscriptions=400, events=48, tuples_of_r=300, tuples_of_s=300)
WORK = JoinsWork([300], 32, nodes=300, overlay=30)


@pytest.fixture(scope="module")
def tree() -> DisseminationTree:
    return internet_tree(300, 30)


@pytest.fixture(scope="module")
def small() -> Workload:
    return synthetic.draw(SMALL)


@pytest.fixture(scope="module")
def placement(small: Workload, tree: DisseminationTree) -> Placement:
    return place_subscriptions(small, tree)


def test_a_topology_is_always_the_same_and_has_a_power_law(tree):
    """Trees of one seed are equal; a few nodes have many neighbours, as Inet's."""
    again = internet_tree.__wrapped__(300, 30)
    assert (again.parent == tree.parent).all()
    assert (again.links == tree.links).all()
    assert (tree.depth[1:] == tree.depth[tree.parent[1:]] + 1).all()
    assert sorted(tree.preorder.tolist()) == list(range(30))


def test_zones_are_a_partition_with_equal_loads(small):
    """Each subscription is in its zone's box and in no other; no zone has many more than another."""
    points = subscription_points(small.joins, [("R", "a"), ("S", "c")])
    zones = split_zones(points, 29)
    inside = (points[:, None] >= zones.low) & (points[:, None] <= zones.high)
    owner = inside.all(axis=2)
    assert (owner.sum(axis=1) == 1).all()
    assert (owner.argmax(axis=1) == zones.zone_of).all()
    loads = np.bincount(zones.zone_of, minlength=29)
    assert loads.min() >= 400 // 29 // 2
    assert loads.max() <= 2 * (400 // 29 + 1)


def brute_traffic(workload: Workload, placement: Placement, events: int) -> tuple[int, int]:
    """Hops, and those that leave the server, worked out message by message with sets."""
    processor = Processor(workload.catalog, workload.joins)
    processor.restore(workload.content)
    parent = placement.tree.parent.tolist()
    hops = leaving = 0
    for batch in workload.batches(0, events, 7):
        notified = processor.process([batch])
        for part, readers in zip(notified.parts, notified.readers(), strict=True):
            for at in np.flatnonzero(part.messages.kind == ADDED).tolist():
                mine = notified.ids[readers.numbers[readers.start[at] : readers.start[at + 1]]]
                crossed = set()
                for node in set(placement.node_of[mine].tolist()):
                    while parent[node] >= 0:
                        crossed.add(node)
                        node = parent[node]
                hops += len(crossed)
                leaving += sum(parent[node] == 0 for node in crossed)
    return hops, leaving


def test_a_message_crosses_the_links_to_those_who_read_it(small, placement):
    """Once each, as a search with sets finds them."""
    trial = try_network(small, OURS, 48, 0, placement)
    hops, _ = brute_traffic(small, placement, 48)
    assert trial.hops * 48 == hops > 0
    assert trial.traffic > trial.stress > 0
    assert trial.last_hop > trial.traffic


def test_what_is_sent_to_each_apart_takes_one_hop(small, placement):
    """Straight from the server: traffic and stress are the same, and there is no last hop besides."""
    trial = try_network(small, "enum-sj", 48, 0, placement)
    assert trial.traffic == trial.stress == trial.last_hop
    assert trial.links > trial.traffic


def test_another_payload_is_linear(small, placement):
    """A trial with another payload counts what the first one foretells."""
    larger = synthetic.draw(replace(SMALL, payload=1_000))
    for scheme in ("ref-j+", OURS):
        one = try_network(small, scheme, 48, 0, placement)
        other = try_network(larger, scheme, 48, 0, placement)
        assert other.traffic == pytest.approx(one.traffic + 900 * one.tuple_hops)


def test_regions_of_a_content_addressable_network_miss_no_reader(small, placement):
    """The zones that a region meets have everybody who reads the message; and all zones can be reached."""
    points = subscription_points(small.joins, [("R", "a"), ("S", "c")])
    zones = split_zones(points, 29)
    can = addressable_network(zones)
    assert (can.depth >= 0).all()
    processor = Processor(small.catalog, small.joins)
    processor.restore(small.content)
    seen = 0
    for batch in small.batches(0, 48, 16):
        notified = processor.process([batch])
        for part, readers in zip(notified.parts, notified.readers(), strict=True):
            start, boxes = regions(part.messages, False, part.sender.base.name == "S")
            hops = np.zeros((2, len(part.messages)), np.int64)
            region_hops(can, start, boxes, *hops)
            for at in range(len(part.messages)):
                mine = notified.ids[readers.numbers[readers.start[at] : readers.start[at + 1]]]
                here = boxes[start[at] : start[at + 1]]
                met = {
                    zone
                    for zone in range(len(zones))
                    for box in here
                    if (zones.low[zone] <= box[4:]).all() and (zones.high[zone] >= box[:4]).all()
                }
                assert set(zones.zone_of[mine].tolist()) <= met
                assert hops[0, at] >= len(met) - 1
                seen += len(mine)
    assert seen


def test_plain_nodes_carry_what_the_other_count_says(small, placement):
    """The network of nodes without CN* has the traffic, and the hops of latency, of the kernel's."""
    larger = synthetic.draw(replace(SMALL, payload=1_000))
    for scheme in ("ref-j+", OURS):
        plain = try_star_network(larger, scheme, (0, 48), 1_000, placement, None)
        counted = try_network(larger, scheme, 48, 0, placement)
        assert plain.traffic == pytest.approx(counted.traffic)
        assert plain.stress == pytest.approx(counted.stress)
        assert plain.latency == pytest.approx(counted.way)
        assert not plain.asked


def test_payloads_that_were_sent_before_are_not_sent_again(small, placement):
    """With room for all of them; with room for one they are asked for, and everybody gets them."""
    larger = synthetic.draw(replace(SMALL, payload=1_000, tuples_of_r=40, events=160))
    plain, roomy, cramped = (
        try_star_network(larger, OURS, (64, 96), 1_000, placement, entries)
        for entries in (None, 5_000, 1)
    )
    assert roomy.traffic < plain.traffic
    assert roomy.again < plain.again
    assert plain.least == roomy.least == cramped.least
    assert 0.8 * roomy.traffic < roomy.least < roomy.traffic, "headers, and acknowledgements"
    assert not roomy.asked
    assert roomy.latency == pytest.approx(plain.latency)
    assert cramped.asked > 0
    assert cramped.latency > plain.latency


def test_a_small_repository_is_hardly_worse_than_none(small, placement):
    """Without any room payloads come whole, with their headers; with little, each link has a payload at most once."""
    larger = synthetic.draw(replace(SMALL, payload=1_000, tuples_of_r=40, events=160))
    plain, none, few = (
        try_star_network(larger, OURS, (64, 96), 1_000, placement, entries)
        for entries in (None, 0, 2)
    )
    assert plain.traffic < none.traffic < 1.05 * plain.traffic
    assert none.again == plain.again
    assert not none.asked
    assert none.latency == pytest.approx(plain.latency)
    assert few.again <= plain.again
    assert few.traffic < 1.1 * plain.traffic


@pytest.mark.parametrize("name", ["joins-subscriptions", "joins-star"])
def test_an_experiment_is_a_section_with_tables_and_a_plot(name: str, tmp_path):
    """And everything can be written."""
    section = EXPERIMENTS[name](WORK, unseen)
    found = Findings(BENCHMARK)
    found.add(section)
    found.write(tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".md", ".png"}
    assert "Figures to beat" in (tmp_path / "network.md").read_text()


def test_the_command_knows_its_experiments(bench: Bench):
    """A name that isn't one is refused with those that are."""
    result = bench("network", "-x", "joins-nothing")
    assert result.exit_code == 2
    assert "joins-repository" in result.stderr
