"""What one hostile subscription costs all the others: `python -m benchmarks.hostile`.

Ordinary subscriptions match a batch of events, alone and beside one with very many patterns, memberships or comparisons
that no event gets to. The ratio of the two times is what the hostile one costs.
"""

import argparse
import json
import time

import numpy as np
import pyarrow as pa

from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan

_SCHEMA = Schema.of(
    {"symbol": "string", "price": "double", "volume": "bigint", "tags": "array<string>"}
)
_EVENTS = 10_000
_REPEATS = 5


def _hostile(tests: int) -> dict[str, str]:
    patterns = [f"symbol LIKE '%{n}_x%'" for n in range(tests)]
    members = [f"array_contains(tags, 't{n}')" for n in range(tests)]
    return {
        "patterns beside an equality": "symbol = 'nobody' AND " + " AND ".join(patterns),
        "patterns alone": " AND ".join(patterns),
        "memberships beside an equality": "symbol = 'nobody' AND " + " AND ".join(members),
    }


def _matcher(ordinary: int, hostile: str | None) -> Matcher:
    draw = np.random.default_rng(1)
    rows = [
        (n, "a", f"symbol = 'S{draw.integers(1000)}' AND price > {draw.integers(100)}", FOREVER)
        for n in range(ordinary)
    ]
    if hostile is not None:
        rows.append((ordinary, "mallory", hostile, FOREVER))
    plan, errors = compile_plan(Rows.of(rows), _SCHEMA)
    assert not errors, errors
    return Matcher(plan)


def _seconds(matcher: Matcher, events: pa.RecordBatch) -> float:
    matcher.match_batch(events)
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        matcher.match_batch(events)
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ordinary", type=int, default=10_000)
    parser.add_argument("--tests", type=int, default=9_990)
    options = parser.parse_args()
    draw = np.random.default_rng(2)
    events = pa.record_batch(
        {
            "symbol": [f"S{n}" for n in draw.integers(1000, size=_EVENTS)],
            "price": draw.uniform(0, 100, _EVENTS),
            "volume": draw.integers(1000, size=_EVENTS),
            "tags": [["a", "b"]] * _EVENTS,
        }
    )
    alone = _seconds(_matcher(options.ordinary, None), events)
    ratios = {
        name: round(_seconds(_matcher(options.ordinary, text), events) / alone, 2)
        for name, text in _hostile(options.tests).items()
    }
    print(json.dumps({"seconds_alone": round(alone, 5), "times_slower": ratios}))


if __name__ == "__main__":
    main()
