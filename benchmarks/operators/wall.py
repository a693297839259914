"""Time as a user sees it: filters that call an operator of one millisecond, read, compiled and matched.

The operator is busy for exactly that long, so whatever a batch takes beyond its calls is ours: engine, strategy,
handing over to the operator's thread, learning. Its answers are drawn from what it is given, so that all strategies see
the same.
"""

import time
from dataclasses import dataclass

import pyarrow as pa

from benchmarks.benchmark import Step, unseen
from benchmarks.operators.instances import Recipe, draw
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan
from penstock.operators.define import Operators, operator
from penstock.operators.strategies import STRATEGIES

NAME = "wall"
RECIPE = Recipe(1_000, 250)
EVENTS = 40
_COST = 1e-3
_TRUE = 30  # percent
_WARM_UP = 2  # events


@operator("millisecond", cost="1 ms")
def millisecond(event: int, predicate: int) -> bool:
    """Busy for a millisecond; true for some events."""
    until = time.perf_counter() + _COST
    while time.perf_counter() < until:
        pass
    return (event * 7919 + predicate * 104_729) % 9973 % 100 < _TRUE


@dataclass(frozen=True, slots=True)
class Wall:
    """What one strategy took. `overhead` is the time beside the calls, by that of the calls."""

    strategy: str
    events_per_second: float
    calls_per_event: float
    overhead: float
    matches: int


def walls(step: Step = unseen) -> list[Wall]:
    """Every strategy on the same events."""
    chains = draw(RECIPE).chains
    rows = [
        (
            c + 1,
            "",
            " AND ".join(f"millisecond(event, {p})" for p in chains.predicate[a:b]),
            FOREVER,
        )
        for c, (a, b) in enumerate(zip(chains.start[:-1], chains.start[1:], strict=True))
    ]
    operators = Operators(millisecond)
    schema = Schema.of({"event": "bigint"}).with_operators(operators.signatures)
    plan, _ = compile_plan(Rows.of(rows), schema)
    found: list[Wall] = []
    for name in STRATEGIES:
        step(f"{NAME}: {name}")
        matcher = Matcher(plan, operators=operators, strategy=name)
        matcher.match_batch(_batch(0, _WARM_UP))  # kernels, and something to go by
        began, calls = time.perf_counter(), _calls(matcher)
        matches = len(matcher.match_batch(_batch(_WARM_UP, EVENTS)).flatten())
        seconds, calls = time.perf_counter() - began, _calls(matcher) - calls
        busy = calls * _COST
        found.append(Wall(name, EVENTS / seconds, calls / EVENTS, (seconds - busy) / busy, matches))
    return found


def _calls(matcher: Matcher) -> int:
    assert matcher.operators is not None
    return matcher.operators.invoker.stats()["millisecond"].calls


def _batch(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"event": pa.array(range(first, first + count), pa.int64())})
