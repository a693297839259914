"""How small a routing table gets, and how long an event then takes (figure 12 and Table 2 of the paper).

Each method's table is matched by the same engines: all entries that an event matches are found. The scan is the naive
engine. What the paper calls diagrams is our `mbd`; `auto` is what Penstock takes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Section, Step
from benchmarks.covering.published import (
    COVERED,
    COVERING,
    METHODS,
    NONE,
    PERFECT,
    ROUTING_MS,
    scan_share,
)
from benchmarks.covering.sets import SCHEMA, A, B, Drawn, Recipe, draw, plan_of
from benchmarks.plots import Plot
from benchmarks.sheets import Sheet
from penstock.covering.frontier import Frontier
from penstock.covering.regions import Region
from penstock.covering.routing_table import RoutingTable
from penstock.matching import Matcher

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "tables"
THRESHOLD = 0.1  # the paper doesn't say which its imperfect merging has; false positives are below 2.5 % there
EVENTS = 4_096
SCANNED = 64  # events that the naive engine gets
_RUNS = 3


@dataclass(frozen=True, slots=True)
class Table:
    """A set behind one method's table. Microseconds are per event."""

    set_name: str
    method: str
    entries: int
    share: float
    seconds: float  # to make it of the table before it
    auto: str
    auto_us: float
    mbd_us: float
    scan_us: float
    matches: float


def tables(recipe: Recipe, step: Step) -> Iterator[Table]:
    """Every method for a set."""
    step(f"set {recipe.name}: drawing")
    drawn = draw(recipe)
    for method in METHODS:
        step(f"set {recipe.name}: {method}")
        began = time.perf_counter()
        entries = _entries(drawn, method)
        seconds = time.perf_counter() - began
        yield _measured(drawn, method, entries, seconds)


def _entries(drawn: Drawn, method: str) -> list[Region]:
    if method == NONE:
        return drawn.regions
    if method == COVERING:
        frontier: Frontier[int] = Frontier()
        frontier.load(enumerate(drawn.regions))
        return [drawn.regions[n] for n in frontier.frontier()]
    table: RoutingTable[int] = RoutingTable(
        SCHEMA, 0.0 if method == PERFECT else THRESHOLD, drawn.statistics
    )
    table.load(enumerate(drawn.regions))
    table.merge()
    return [found for _, found in table.entries()]


def _measured(drawn: Drawn, method: str, entries: Sequence[Region], seconds: float) -> Table:
    plan = plan_of(entries, drawn.recipe.values)
    auto, mbd, scan = (Matcher(plan, engine) for engine in ("auto", "mbd", "naive"))
    events = drawn.events(EVENTS)
    auto_us, matches = _us_per_event(auto, events)
    mbd_us, others = _us_per_event(mbd, events)
    if matches != others:
        raise AssertionError(f"engines disagree: {matches} matches, {others}")
    scan_us, _ = _us_per_event(scan, events.slice(0, SCANNED))
    name, count = drawn.recipe.name, len(entries)
    return Table(
        name,
        method,
        count,
        count / len(drawn.regions),
        seconds,
        auto.stats().engine,
        auto_us,
        mbd_us,
        scan_us,
        matches / EVENTS,
    )


def _us_per_event(matcher: Matcher, events: Any) -> tuple[float, int]:
    """The best of some runs after a first one, and how many matches there are."""
    matches = len(matcher.match_batch(events).values)
    best = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        matcher.match_batch(events)
        best = min(best, time.perf_counter() - began)
    return best / events.num_rows * 1e6, matches


def measure_tables(step: Step) -> Section:
    """Sets A and B."""
    return tables_section([table for recipe in (A, B) for table in tables(recipe, step)])


def tables_section(found: Sequence[Table]) -> Section:
    """What was found of some sets."""
    plot = Plot(partial(_paint, found), (9, 4.5), columns=len(_sets(found)))
    return Section(NAME, found, [size_sheet(found), routing_sheet(found)], plot)


def size_sheet(found: Sequence[Table]) -> Sheet:
    """How many entries are left."""
    return Sheet(
        "Routing table size (figure 12)",
        ("set", "method", "entries", "share left", "in the paper", "seconds"),
        tuple(
            (
                t.set_name,
                t.method,
                f"{t.entries:,}",
                f"{t.share:.1%}",
                f"{scan_share(t.set_name, t.method):.1%}",
                f"{t.seconds:.1f}",
            )
            for t in found
        ),
        (
            "the paper's shares are those of its scan's time; it says that "
            + " and ".join(f"{share:.0%} of set {name}" for name, share in COVERED.items())
            + " are covered, and the sets are drawn so that about as many are",
            f"imperfect merging: threshold {THRESHOLD}",
        ),
        words=2,
    )


def routing_sheet(found: Sequence[Table]) -> Sheet:
    """How long an event takes, by what it takes without covering."""
    base = {t.set_name: t for t in found if t.method == NONE}
    rows = []
    for t in found:
        none, paper = base[t.set_name], ROUTING_MS[t.set_name, t.method]
        before = ROUTING_MS[t.set_name, NONE]
        rows.append(
            (
                t.set_name,
                t.method,
                f"{t.auto_us:.2f} ({t.auto})",
                f"{t.auto_us / none.auto_us:.2f}",
                f"{t.mbd_us:.2f}",
                f"{t.mbd_us / none.mbd_us:.2f}",
                f"{t.scan_us:,.0f}",
                f"{paper / before:.2f}",
                f"{paper * 1000:,.0f}",
                f"{paper * 1000 / t.auto_us:,.0f}",
                f"{t.matches:.1f}",
            )
        )
    return Sheet(
        "Routing an event (Table 2)",
        (
            "set",
            "method",
            "µs",
            "by none",
            "mbd µs",
            "by none",
            "scan µs",
            "paper by none",
            "paper µs",
            "times as fast",
            "matches",
        ),
        tuple(rows),
        (
            f"{EVENTS:,} events in a batch, one core; the scan {SCANNED}",
            "by none: by the time without covering",
        ),
        words=2,
    )


def _paint(found: Sequence[Table], panels: "Sequence[Axes]") -> None:
    """Shares left, beside the paper's."""
    for axes, name in zip(panels, _sets(found), strict=True):
        mine = [t for t in found if t.set_name == name]
        places = range(len(mine))
        axes.bar([p - 0.2 for p in places], [t.share for t in mine], 0.4, label="Penstock")
        paper = [scan_share(name, t.method) for t in mine]
        axes.bar([p + 0.2 for p in places], paper, 0.4, label="in the paper")
        axes.set_xticks(list(places), [t.method.replace(" ", "\n") for t in mine])
        axes.set(title=f"set {name}", ylabel="share of the subscriptions left")
        axes.legend(fontsize="small")


def _sets(found: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(t.set_name for t in found))
