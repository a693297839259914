"""The experiments on networks: brokers by themselves and in trees, hops, and select-joins over overlay nodes."""

from collections.abc import Callable

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.network import broker_speed, covering_network, hops
from benchmarks.network.select_joins.aims import aims_sheet
from benchmarks.network.select_joins.experiments import EXPERIMENTS, JoinsWork


def _alone(measure: Callable[[Step], Section]) -> Callable[[JoinsWork, Step], Section]:
    """An experiment that needs nothing but to tell its steps."""
    return lambda _, step: measure(step)


BENCHMARK = Benchmark[JoinsWork](
    "network",
    "Benchmarks of the network",
    "The brokers themselves, over links that take no time; chains of them over Zenoh; select-joins over overlay nodes "
    "in an Internet-like topology, on workloads drawn as their paper describes them.",
    {
        broker_speed.NAME: _alone(broker_speed.measure_broker),
        covering_network.NAME: _alone(covering_network.measure_covering),
        hops.NAME: _alone(hops.measure_hops),
        **EXPERIMENTS,
    },
    aims_sheet,
)
