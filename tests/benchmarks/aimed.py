"""Events that match: uniform ones hardly ever meet a rare filter, and joins that find nothing agree easily."""

import re

import numpy as np
import pyarrow as pa

from benchmarks.workloads import Workload

_TEST = re.compile(r"(a\d+) (?:= (\d+)|BETWEEN (\d+) AND (\d+))")


def aimed_events(workload: Workload, seed: int = 0) -> pa.RecordBatch:
    """The workload's events, every other one changed so that it meets one of the subscriptions."""
    rng = np.random.default_rng(seed)
    events = workload.events.to_pylist()
    filters = workload.rows.filters
    for event in events[::2]:
        text = filters[int(rng.integers(len(filters)))].as_py()
        for name, equal, low, high in _TEST.findall(text):
            event[name] = int(equal) if equal else int(rng.integers(int(low), int(high) + 1))
    return pa.RecordBatch.from_pylist(events, schema=workload.events.schema)
