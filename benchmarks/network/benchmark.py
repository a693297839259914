"""The network: how fast a broker is, what covering and merging save in a tree of brokers, what a hop adds."""

from collections.abc import Callable

from benchmarks.benchmark import Benchmark, Section, Step, no_sheets
from benchmarks.network import broker_speed, covering_network, hops


def _alone(measure: Callable[[Step], Section]) -> Callable[[None, Step], Section]:
    """An experiment that needs nothing but to tell its steps."""
    return lambda _, step: measure(step)


BENCHMARK = Benchmark[None](
    "network",
    "Benchmarks of the network",
    "The brokers themselves, over links that take no time; and chains of them over Zenoh.",
    {
        broker_speed.NAME: _alone(broker_speed.measure_broker),
        covering_network.NAME: _alone(covering_network.measure_covering),
        hops.NAME: _alone(hops.measure_hops),
    },
    no_sheets,
)
