"""The experiments on networks: `python -m benchmarks network`."""

from benchmarks.benchmark import Benchmark
from benchmarks.network.select_joins.aims import aims_sheet
from benchmarks.network.select_joins.experiments import EXPERIMENTS, JoinsWork

BENCHMARK = Benchmark[JoinsWork](
    "network",
    "Benchmarks of the network",
    "Select-joins over overlay nodes in an Internet-like topology, on workloads drawn as their paper describes them.",
    EXPERIMENTS,
    aims_sheet,
)
