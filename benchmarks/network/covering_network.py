"""What covering, merging and advertisements save in a network of brokers (mbd §6, in a tree instead of one table).

A tree of brokers, subscriptions as in set A of the MBD paper. Those of one profile are of one broker, so that a broker
is about some things and not about others. A few brokers publish; with advertisements they announce what they publish:
some ranges of the attributes that subscriptions have for themselves. Brokers come one after the other, each with its
subscriptions, and what they tell goes through the tree.

    told        entries that brokers told their neighbours or took back: the paper's subscription messages
    tables      entries that brokers hold of their neighbours, all together
    passed on   events sent over links; in vain are those that nobody wanted where they came to
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.covering.sets import NAMES, SCHEMA, A, Drawn, Recipe, draw, filter_text
from benchmarks.network.simulation.quiet_network import QuietNetwork
from benchmarks.plots import Plot
from benchmarks.sheets import Sheet
from penstock.network.broker_settings import BrokerSettings, Place, Routing
from penstock.network.broker_steps import Publish, Start

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "covering"
BROKERS = 15
PUBLISHERS = 3
EVENTS = 6_000
THRESHOLD = 0.1
_BATCH = 500
METHODS: dict[str, tuple[Routing, float]] = {
    "flooding": ("flooding", 0.0),
    "covering": ("covering", 0.0),
    "merging": ("merging", 0.0),
    "imperfect merging": ("merging", THRESHOLD),
}


@dataclass(frozen=True, slots=True)
class Network:
    """One method, all brokers together."""

    method: str
    is_announced: bool
    told: int
    tables: int
    passed_on: int
    in_vain: int
    delivered: int
    megabytes: float
    seconds: float


def networks(
    step: Step, recipe: Recipe = A, brokers: int = BROKERS, events: int = EVENTS
) -> Iterator[Network]:
    """Every method, with advertisements and without."""
    drawn = draw(recipe)
    owner = np.where(
        drawn.profile < 0, np.arange(len(drawn.profile)) % brokers, drawn.profile % brokers
    )
    texts = [filter_text(r.boxes[0], recipe.values) for r in drawn.regions]
    mine = [
        tuple((n, texts[n]) for n in np.flatnonzero(owner == b).tolist()) for b in range(brokers)
    ]
    announced = _announced(recipe)
    batch = _events(drawn, events)
    delivered = set()
    for is_announced in (True, False):
        for method in METHODS:
            step(f"{method}{', with advertisements' if is_announced else ''}")
            found = _network(method, is_announced, mine, announced, batch)
            delivered.add(found.delivered)
            yield found
    if len(delivered) > 1:
        raise AssertionError(f"methods deliver different numbers of events: {delivered}")


def _announced(recipe: Recipe) -> str:
    third = recipe.values // 3
    return " AND ".join(f"{name} < {third}" for name in NAMES[-recipe.own :])


def _events(drawn: Drawn, count: int) -> pa.RecordBatch:
    """Events that are announced: of the last attributes a third of the values."""
    third = drawn.recipe.values // 3
    batch = drawn.events(count)
    for name in NAMES[-drawn.recipe.own :]:
        at = batch.schema.get_field_index(name)
        few = pa.array(batch.column(at).to_numpy() % third, pa.int32())
        batch = batch.set_column(at, name, few)
    return batch


def _network(
    method: str,
    is_announced: bool,
    subscriptions: Sequence[tuple[tuple[int, str], ...]],
    announced: str,
    events: pa.RecordBatch,
) -> Network:
    began = time.process_time()
    routing, threshold = METHODS[method]
    places = [Place(n, f"b{n}") for n in range(len(subscriptions))]
    network = QuietNetwork()
    settings = [
        BrokerSettings(
            place,
            SCHEMA,
            parents=(places[(n - 1) // 2],) if n else (),
            routing=routing,
            threshold=threshold,
            advertisements=is_announced,
        )
        for n, place in enumerate(places)
    ]
    publishers = [place.name for place in places[:: max(1, len(places) // PUBLISHERS)]][:PUBLISHERS]
    starts = {
        place.name: Start(subscriptions[n], ((1, announced),) if place.name in publishers else ())
        for n, place in enumerate(places)
    }
    network.start(settings, starts)
    told = sum(t.entries_told for b in network.brokers.values() for t in b.traffic().values())
    ids = np.random.default_rng(5)
    for at in range(0, len(events), _BATCH):
        some = events.slice(at, _BATCH)
        name = publishers[at // _BATCH % len(publishers)]
        network.give(name, Publish(at, ids.bytes(16 * len(some)), some))
    if network.errors:
        raise AssertionError(f"refused: {network.errors}")
    links = [t for b in network.brokers.values() for t in b.traffic().values()]
    return Network(
        method,
        is_announced,
        told,
        sum(t.entries for t in links),
        sum(t.events_out for t in links),
        sum(t.events_in_vain for t in links),
        sum(len(d.rows) for _, d in network.delivered),
        network.bytes / 1e6,
        time.process_time() - began,
    )


def measure_covering(step: Step, subscriptions: int = A.subscriptions) -> Section:
    """Every method on a tree of brokers."""
    found = list(networks(step, replace(A, subscriptions=subscriptions)))
    plot = Plot(partial(_paint, found), (10, 4.5), columns=2)
    return Section(NAME, found, [covering_sheet(found, subscriptions)], plot)


def covering_sheet(found: Sequence[Network], subscriptions: int) -> Sheet:
    base = {n.is_announced: n for n in found if n.method == "flooding"}
    rows = tuple(
        (
            n.method,
            "yes" if n.is_announced else "no",
            f"{n.told:,}",
            f"{n.told / base[n.is_announced].told:.1%}",
            f"{n.tables:,}",
            f"{n.tables / base[n.is_announced].tables:.1%}",
            f"{n.passed_on:,}",
            f"{n.in_vain / max(1, n.passed_on):.2%}",
            f"{n.megabytes:,.1f}",
            f"{n.seconds:,.0f}",
        )
        for n in found
    )
    return Sheet(
        f"{BROKERS} brokers, {subscriptions:,} subscriptions",
        (
            "method",
            "advertisements",
            "told",
            "by flooding",
            "tables",
            "by flooding",
            "passed on",
            "in vain",
            "MB",
            "seconds",
        ),
        rows,
        (
            f"{EVENTS:,} events of {PUBLISHERS} publishers; all methods deliver the same",
            f"imperfect merging: threshold {THRESHOLD}, of each table; seconds of one core, all brokers together",
        ),
        words=2,
    )


def _paint(found: Sequence[Network], panels: "Sequence[Axes]") -> None:
    for axes, what in zip(panels, ("told", "tables"), strict=True):
        for is_announced, shift in ((True, -0.2), (False, 0.2)):
            mine = [n for n in found if n.is_announced == is_announced]
            label = "with advertisements" if is_announced else "without"
            places = [p + shift for p in range(len(mine))]
            axes.bar(places, [getattr(n, what) for n in mine], 0.4, label=label)
        axes.set_xticks(range(len(METHODS)), [m.replace(" ", "\n") for m in METHODS])
        axes.set(ylabel=f"entries {what}" if what == "told" else "entries in tables")
        axes.legend(fontsize="small")
