"""How fast is covering? `python -m benchmarks.covering_speed [set-a|set-b|ranges] [subscriptions]`.

Sets A and B are the paper's (section 6) with what it leaves open chosen: 20 attributes of integers, 100 or 250 distinct
ranges each, and of these three to five per subscription, in set A two for one of a hundred. `ranges` is the workload of
that name, where hardly anything is covered.
"""

import sys
import time

import numpy as np

from penstock.covering.boxes import BoxStore
from penstock.covering.bulk import frontier_of
from penstock.covering.cover_index import build_index, covered, first_cover
from penstock.covering.diagram.dependencies import Dependencies
from penstock.covering.frontier import Frontier
from penstock.covering.regions import Region
from penstock.covering.values import Values

ATTRIBUTES = 20
CHECKS = 2_000


def paper_set(count, predicates, pairs, random):
    """Subscriptions of three to five out of so many distinct predicates; a share of them of only two."""
    each = predicates // ATTRIBUTES
    middle = random.integers(0, 1_000, (ATTRIBUTES, each))
    half = (500 * random.random((ATTRIBUTES, each)) ** 2).astype(np.int64)
    lows, highs = np.maximum(middle - half, 0), np.minimum(middle + half, 999)
    sizes = np.where(random.random(count) < pairs, 2, random.integers(3, 6, count))
    order = np.argsort(random.random((count, ATTRIBUTES)), axis=1)[:, :5]
    chosen = np.arange(5) < sizes[:, None]
    attribute = order[chosen]
    which = random.integers(0, each, len(attribute))
    start = np.concatenate([[0], np.cumsum(sizes)])
    return start, attribute.astype(np.int32), lows[attribute, which], highs[attribute, which]


def ranges_set(count, random):
    """As in `penstock.bench.workloads.ranges`: four ranges of about 15 % each."""
    attribute = np.argsort(random.random((count, ATTRIBUTES)), axis=1)[:, :4]
    low = random.integers(0, 1_000, (count, 4))
    width = (150 * (0.5 + random.random((count, 4)))).astype(np.int64)
    high = np.minimum(low + width, 999)
    start = np.arange(count + 1) * 4
    return start, attribute.ravel().astype(np.int32), low.ravel(), high.ravel()


def draw(name, count, seed):
    """One of the sets."""
    random = np.random.default_rng(seed)
    if name == "ranges":
        return ranges_set(count, random)
    predicates, pairs = (2_000, 0.01) if name == "set-a" else (5_000, 0.0)
    return paper_set(count, predicates, pairs, random)


def regions_of(start, attribute, low, high):
    """The same boxes as regions."""
    names = [(f"a{n:02}",) for n in range(ATTRIBUTES)]
    tests = [
        (names[a], Values(((x, y + 1),)))
        for a, x, y in zip(attribute.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    for first, past in zip(start.tolist(), start[1:].tolist(), strict=False):
        yield Region((tuple(sorted(tests[first:past], key=lambda t: t[0])),))


def timed(what, work):
    """Say how long it took."""
    begun = time.perf_counter()
    result = work()
    print(f"{what:52}{time.perf_counter() - begun:10.3f} s", flush=True)
    return result


def spread(what, times):
    """Say how long each of many took."""
    micros = np.array(times) * 1e6
    mean, (half, most) = micros.mean(), np.percentile(micros, [50, 99])
    print(
        f"{what:52}{mean:10.1f} µs   median {half:.1f}   99 % {most:.1f}   max {micros.max():.0f}"
    )


def each(work, items):
    """How long the work takes for each item."""
    times = []
    for item in items:
        begun = time.perf_counter()
        work(item)
        times.append(time.perf_counter() - begun)
    return times


def main(name="set-a", count=200_000):
    """Measure one set."""
    drawn = draw(name, count + CHECKS, 1)
    store = BoxStore.of(*drawn)
    boxes, numbers = store.boxes, np.arange(count)
    frontier_of(boxes, numbers[:100])
    index = timed("index of all", lambda: build_index(boxes, numbers))
    print(
        f"bytes per box: {store.nbytes / (count + CHECKS):.0f} boxes, {index.nbytes / count:.0f} index"
    )
    covers = timed("frontier of all, one thread", lambda: frontier_of(boxes, numbers))
    timed("frontier of all, two threads", lambda: frontier_of(boxes, numbers, threads=2))
    print(f"covered: {(covers >= 0).mean():.1%}")
    top = build_index(boxes, numbers[covers < 0])
    live = np.ones(count + CHECKS, np.bool_)
    new = range(count, count + CHECKS)
    covered(boxes, top, live, count)
    spread("is it covered? in the frontier", each(lambda n: first_cover(boxes, top, live, n), new))
    spread("what does it cover?", each(lambda n: covered(boxes, top, live, n), new))
    regions = list(regions_of(*drawn))
    frontier = Frontier()
    timed("Frontier.load", lambda: frontier.load(enumerate(regions[:count])))
    print(f"bytes per subscription: {frontier.nbytes / count:.0f}")
    frontier.add(-1, regions[0])
    spread("Frontier.add", each(lambda n: frontier.add(n, regions[n]), new))
    random = np.random.default_rng(2)
    gone = random.choice(count, CHECKS, replace=False).tolist()
    spread("Frontier.remove", each(frontier.remove, gone))
    table = Dependencies()
    predicates = list(dict.fromkeys(zip(drawn[2].tolist(), drawn[3].tolist(), strict=True)))[:5_000]
    spread(f"Dependencies.add, up to {len(predicates)} predicates", each(table.add, predicates))
    print(f"rows: {sum(1 for _ in table.rows())}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
