"""The experiments on the network."""

from benchmarks.benchmark import Benchmark
from benchmarks.network import hops

BENCHMARK: Benchmark[None] = Benchmark(
    name="network",
    title="The network",
    about="Brokers that route by content.",
    experiments={
        hops.NAME: lambda _, step: hops.measure_hops(step),
    },
)
