"""The order of attributes: what it does to the diagram, and to merging by it (figure 12 of the paper).

The paper merges roots with the same child, so it finds subscriptions that differ in their topmost attribute only, and
another order finds others. Ours looks along every attribute, so that the order makes no difference.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.baselines.covering.diagram import Diagram
from benchmarks.baselines.covering.order import order_by_statistics, random_order
from benchmarks.benchmark import Section, Step
from benchmarks.covering.published import RANDOM_ORDER_MORE
from benchmarks.covering.sets import SCHEMA, A, Recipe, draw
from benchmarks.sheets import Sheet
from penstock.covering.frontier import Frontier
from penstock.covering.routing_table import RoutingTable

NAME = "orders"
SEEDS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Ordered:
    """A diagram of the subscriptions that nothing covers, and how many are left when its groups are merged."""

    order: str
    entries: int
    nodes: int
    diagrams: int
    outputs_per_diagram: float
    bytes_each: float
    merged: int


def orders(step: Step, recipe: Recipe = A) -> Iterator[Ordered]:
    """The order from statistics, and some at random."""
    regions = draw(recipe).regions
    frontier: Frontier[int] = Frontier()
    frontier.load(enumerate(regions))
    kept = [regions[n] for n in frontier.frontier()]
    chosen = order_by_statistics(kept)
    named = {"from statistics": chosen}
    named |= {f"random {seed}": random_order(chosen, seed) for seed in SEEDS}
    for name, order in named.items():
        step(f"order {name}")
        diagram: Diagram[int] = Diagram(order)
        for n, region in enumerate(kept):
            diagram.add(n, region)
        stats = diagram.stats()
        yield Ordered(
            name,
            len(kept),
            stats.nodes,
            stats.diagrams,
            stats.outputs_per_diagram,
            stats.nbytes / len(kept),
            len(kept) - _merged_away(diagram),
        )
    step("every attribute")
    table: RoutingTable[int] = RoutingTable(SCHEMA)
    table.load(enumerate(kept))
    table.merge()
    yield Ordered("along every attribute", len(kept), 0, 0, 0.0, 0.0, len(table))


def _merged_away(diagram: Diagram[int]) -> int:
    """How many fewer there are once each group is one entry, whose values are those of all members."""
    return sum(len(group.members) - 1 for group in diagram.groups())


def measure_orders(step: Step) -> Section:
    """Set A."""
    found = list(orders(step))
    return Section(NAME, found, [order_sheet(found)])


def order_sheet(found: Sequence[Ordered]) -> Sheet:
    """By order."""
    base = found[0].merged
    return Sheet(
        "The order of attributes (figure 12)",
        (
            "order",
            "entries",
            "nodes",
            "diagrams",
            "roots each",
            "bytes each",
            "merged perfectly",
            "more",
        ),
        tuple(
            (
                o.order,
                f"{o.entries:,}",
                f"{o.nodes:,}" if o.nodes else "",
                f"{o.diagrams:,}" if o.nodes else "",
                f"{o.outputs_per_diagram:.2f}" if o.nodes else "",
                f"{o.bytes_each:,.0f}" if o.nodes else "",
                f"{o.merged:,}",
                f"{o.merged - base:+,}",
            )
            for o in found
        ),
        (
            f"the paper: {RANDOM_ORDER_MORE:,} more with a random order",
            "one round of merging along the topmost attribute; the last row is ours, until nothing merges",
        ),
    )
