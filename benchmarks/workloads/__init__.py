"""Frozen workloads: the same subscriptions and events for ever, from seeds.

    equality        20 attributes of 5 values, tested less and less: the matching tree's kind of load
    equality-1000   4 equalities over 20 attributes of 1,000 values
    equality-10     the same with 10 values
    ranges          4 ranges over 20 attributes of 1,000 values
    stock           symbol, price range, volume threshold
    mixed           prefixes, lists, negations, disjunctions, NULLs, booleans, timestamps
    sparse          500 attributes; events carry 20, subscriptions test 3
    search          words, prefixes and regular expressions in titles, some with a price

Subscriptions and events have streams of draws of their own: events are the same whatever the number of subscriptions,
so that a cost that grows with it grows for no other reason.
"""

from collections.abc import Callable

from benchmarks.workloads.equality import equality, equality_10, equality_1000
from benchmarks.workloads.mixed import mixed
from benchmarks.workloads.ranges import ranges
from benchmarks.workloads.search import search
from benchmarks.workloads.sparse import sparse
from benchmarks.workloads.stock import stock
from benchmarks.workloads.workload import Join, Workload

WORKLOADS: dict[str, Callable[[int, int], Workload]] = {
    "equality": equality,
    "equality-1000": equality_1000,
    "equality-10": equality_10,
    "ranges": ranges,
    "stock": stock,
    "mixed": mixed,
    "sparse": sparse,
    "search": search,
}
"""By name: a number of subscriptions and a number of events, at most, give a workload."""

__all__ = ["WORKLOADS", "Join", "Workload"]
