"""The experiments, by name, and their tables.

    joins-subscriptions   figures 6, 17 and 20, Table 3     joins-stocks        figure 10
    joins-database        figure 7                          joins-repository    figures 11 and 12
    joins-rate            figure 9                          joins-multiway      figure 13
    joins-payload         figure 18                         joins-star          figure 14
    joins-overlap         figure 19

Traffic of the payload experiment is linear in the payload: one trial has how many tuples cross links.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.benchmark import Section, Step
from benchmarks.joins import mixes, multiway, stocks, synthetic
from benchmarks.joins.experiments import OVERLAPS, PAYLOADS, TUPLES_OF_R, TUPLES_OF_S
from benchmarks.joins.synthetic import JOIN_VALUES, Recipe
from benchmarks.joins.workload import Workload
from benchmarks.network.select_joins import plots
from benchmarks.network.select_joins.published import OURS, STAR_TIMES, STRESS_KB, TITLES
from benchmarks.network.select_joins.star_network import StarTrial, try_star_network
from benchmarks.network.select_joins.topology import NODES, OVERLAY, internet_tree
from benchmarks.network.select_joins.trial import (
    Placement,
    TrafficTrial,
    place_subscriptions,
    times_ours,
    try_network,
)
from benchmarks.sheets import Sheet

ALL = (
    "enum-j", "enum-sj", "rel-sel", "ref-j", "ref-j+",
    "ref-sj-sub", "ref-sj-tup", "ref-sj-clu", "ref-sj-clu+",
)  # fmt: skip
SOME = ("enum-j", "enum-sj", "rel-sel", "ref-j", "ref-j+", "ref-sj-tup", "ref-sj-clu+")
STAR_SCHEMES = ("ref-sj-clu+", "ref-j+", "rel-sel")
ENTRIES = (0, 100, 400, 1_000, 3_100)
STAR_PAYLOAD = 1_000
FEW_R, FEWEST_R = 500, 200  # tuples of R, of figures 11 and 12
_FEWER = 2  # times: events of experiments that vary something else than subscriptions


@dataclass(frozen=True, slots=True)
class JoinsWork:
    """Numbers of subscriptions, of which most experiments take the first; events; the network's sizes."""

    sizes: Sequence[int] = (100_000,)
    events: int = 1_000
    nodes: int = NODES
    overlay: int = OVERLAY

    @property
    def recipe(self) -> Recipe:
        return Recipe(subscriptions=self.sizes[0], events=max(1, self.events // _FEWER))

    def place(self, workload: Workload, has_can: bool = False) -> Placement:
        tree = internet_tree(self.nodes, self.overlay)
        return place_subscriptions(workload, tree, has_can)


def _trials(
    work: JoinsWork, workload: Workload, at: float, schemes: Sequence[str], step: Step, events: int,
    has_can: bool = False,
) -> Iterator[TrafficTrial]:  # fmt: skip
    placement = work.place(workload, has_can)
    for scheme in schemes:
        step(f"{workload.name}, {at:,g}: {TITLES[scheme]}")
        yield try_network(workload, scheme, events, at, placement)


def by_subscriptions(work: JoinsWork, step: Step) -> Section:
    """Figures 6, 17 and 20, Table 3."""
    found: list[TrafficTrial] = []
    for size in work.sizes:
        events = max(20, work.events * 100_000 // max(100_000, size))
        workload = synthetic.draw(Recipe(subscriptions=size, events=events))
        found += _trials(work, workload, size, ALL, step, events, has_can=True)
    tree = internet_tree(work.nodes, work.overlay)
    where = (
        f"{work.overlay:,} nodes of {work.nodes:,}; the tree is {int(tree.depth.max())} hops deep, "
        f"{tree.depth.mean():.1f} on average, and the server has {tree.server_links} links; "
        f"{found[0].events:,} events"
    )
    by = "by the number of subscriptions"
    sheets = [
        varied_sheet(f"Traffic, kB per event, {by} (figure 6)", found, "traffic", (where,)),
        varied_sheet(f"Overlay hops per event, {by} (figure 17)", found, "hops", unit=1),
        varied_sheet(f"Traffic with the last hop, kB per event, {by} (figure 20)", found, "last_hop"),
        stress_sheet(found),
        varied_sheet(
            f"The same in a content-addressable network, {by}: traffic, kB per event",
            [t for t in found if t.can_traffic],
            "can_traffic",
            ("a message goes to all zones that its region meets, with or without a reader",),
        ),
        varied_sheet(
            f"Traffic, kB per event, {by}, if subscribers are anywhere",
            found,
            "scattered",
            ("not by zones, but at nodes drawn at random: what nobody arranged for",),
        ),
        varied_sheet(
            f"Traffic over links of the underlying network, kB per event, {by}", found, "links"
        ),
    ]  # fmt: skip
    quantities = (plots.TRAFFIC, plots.HOPS, plots.LAST_HOP, plots.STRESS)
    plot = plots.plot_traffic(found, "subscriptions (×: the paper)", quantities)
    return Section("joins-subscriptions", found, sheets, plot)


def _recipes(name: str, recipe: Recipe) -> dict[float, Recipe]:
    if name == "joins-database":
        return {n: replace(recipe, tuples_of_r=n) for n in TUPLES_OF_R}
    if name == "joins-rate":
        return {n / JOIN_VALUES: replace(recipe, tuples_of_s=n) for n in TUPLES_OF_S}
    return {x: recipe.overlapping(x) for x in OVERLAPS}


_VARIED = {
    "joins-database": ("the tuples of R (figure 7)", "tuples of R"),
    "joins-rate": ("the join output rate (figure 9)", "rows for a tuple that comes"),
    "joins-overlap": ("overlap (figure 19)", "x: centres spread by 13,000 - 2x and 7,500 - x"),
}


def varied(name: str, work: JoinsWork, step: Step) -> Section:
    """Figures 7, 9 and 19."""
    found: list[TrafficTrial] = []
    for at, recipe in _recipes(name, work.recipe).items():
        found += _trials(work, synthetic.draw(recipe), at, SOME, step, recipe.events)
    title, along = _VARIED[name]
    remarks = (f"{found[0].subscriptions:,} subscriptions; {found[0].events:,} events; {along}",)
    sheet = varied_sheet(f"Traffic, kB per event, by {title}", found, "traffic", remarks)
    return Section(name, found, [sheet], plots.plot_traffic(found, along, (plots.TRAFFIC,)))


def by_payload(work: JoinsWork, step: Step) -> Section:
    """Figure 18."""
    recipe = work.recipe
    once = _trials(work, synthetic.draw(recipe), recipe.payload, ALL, step, recipe.events)
    found = [
        replace(t, at=size, traffic=t.traffic + t.tuple_hops * (size - recipe.payload))
        for t in once
        for size in PAYLOADS
    ]
    remarks = (f"{found[0].subscriptions:,} subscriptions; columns: bytes of a tuple's payload",)
    sheet = varied_sheet("Traffic, kB per event, by payload (figure 18)", found, "traffic", remarks)
    plot = plots.plot_traffic(found, "bytes of payload", (plots.TRAFFIC,), log=True)
    return Section("joins-payload", found, [sheet], plot)


def on_stocks(work: JoinsWork, step: Step) -> Section:
    """Figure 10."""
    found: list[TrafficTrial] = []
    for size in work.sizes:
        events = max(20, work.recipe.events * 100_000 // max(100_000, size))
        found += _trials(work, stocks.draw(size, events), size, ALL, step, events)
    remarks = (
        "the paper's stocks and ratings of Yahoo! Finance aren't to be had: drawn, with its numbers "
        "(benchmarks.joins.stocks); a range of ratings is wide here, so that an event reaches many more subscriptions",
    )
    title = "Traffic, kB per event: stocks and reviews, by the number of subscriptions (figure 10)"
    sheets = [
        varied_sheet(title, found, "traffic", remarks),
        varied_sheet("The same with the last hop", found, "last_hop"),
    ]
    plot = plots.plot_traffic(found, "subscriptions", (plots.TRAFFIC, plots.LAST_HOP))
    return Section("joins-stocks", found, sheets, plot)


def by_repository(work: JoinsWork, step: Step) -> Section:
    """Figures 11 and 12."""
    found: list[StarTrial] = []
    warm = work.events - work.events % 16
    counted = max(16, warm // 2 - warm // 2 % 16)
    for r in (FEW_R, FEWEST_R):
        recipe = replace(work.recipe, events=warm + counted, tuples_of_r=r, payload=STAR_PAYLOAD)
        workload = synthetic.draw(recipe)
        placement = work.place(workload)
        for scheme in STAR_SCHEMES:
            for entries in (None, *ENTRIES):
                if entries is not None and scheme == "rel-sel" and entries != ENTRIES[-1]:
                    continue  # nothing is ever sent again: all are alike
                step(f"R has {r} tuples: {TITLES[scheme]}, {entries} entries")
                found.append(
                    try_star_network(
                        workload, scheme, (warm, counted), STAR_PAYLOAD, placement, entries
                    )
                )
    remark = (
        f"{work.sizes[0]:,} subscriptions, payloads of {STAR_PAYLOAD:,} bytes, directory of 512 kB; {counted:,} events "
        f"after {warm:,} that fill the repositories"
    )
    sheets = [star_sheet(found, r, remark) for r in (FEW_R, FEWEST_R)]
    return Section("joins-repository", found, sheets, plots.plot_repositories(found))


def multi_way(work: JoinsWork, step: Step) -> Section:
    """Figure 13."""
    recipe = mixes.General(work.sizes[0], max(200, work.recipe.events))
    workload = mixes.draw_general(recipe)
    step("multi-way mix: costs")
    modelled, simulated = multiway.model_costs(workload)
    best = {"model": multiway.greedy(modelled), "simulation": multiway.greedy(simulated)}
    placement, found = work.place(workload), []
    for choice in multiway.six(list(best.values())):
        words = ", ".join(word for word, its in best.items() if its == choice)
        label = ", ".join(choice) + (f" ({words})" if words else "")
        step(f"multi-way mix: {label}")
        chosen = multiway.Chosen(choice)
        found.append(try_network(workload, OURS, recipe.events, 0, placement, chosen, label))
    step("multi-way mix: Rel-Sel")
    found.append(try_network(workload, "rel-sel", recipe.events, 0, placement))
    return Section(
        "joins-multiway", found, [mix_sheet(found)], plots.plot_bars(found, plots.TRAFFIC)
    )


def star_schema(work: JoinsWork, step: Step) -> Section:
    """Figure 14."""
    found: list[TrafficTrial] = []
    for payload in (0, 100):
        recipe = mixes.Star(work.sizes[0], max(106, work.recipe.events), payload=payload)
        workload = mixes.draw_star(recipe)
        schemes = ("enum-j", "ref-j", "rel-sel", OURS)
        found += _trials(work, workload, payload, schemes, step, recipe.events)
    return Section(
        "joins-star", found, [schema_sheet(found)], plots.plot_bars(found, plots.TRAFFIC)
    )


# --- tables -------------------------------------------------------------------------------------


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,.2f}"


def varied_sheet(
    title: str, found: Sequence[TrafficTrial], name: str, remarks: Sequence[str] = (), unit: float = 1e3
) -> Sheet:  # fmt: skip
    """A row for each scheme; for each value what it has, and how many times as much as ours."""
    values = list(dict.fromkeys(t.at for t in found))
    by = {(t.title, t.at): t for t in found}
    columns = [c for value in values for c in (f"{value:,g}", "by Clu+")]
    rows = []
    for scheme in dict.fromkeys(t.title for t in found):
        row = [scheme]
        for value in values:
            t = by[scheme, value]
            row += [_figure(getattr(t, name) / unit), _figure(times_ours(found, t, name, OURS))]
        rows.append(tuple(row))
    return Sheet(title, ("scheme", *columns), tuple(rows), tuple(remarks))


def stress_sheet(found: Sequence[TrafficTrial]) -> Sheet:
    """Table 3."""
    rows = []
    for t in found:
        paper = STRESS_KB.get(t.scheme, {}).get(t.subscriptions)
        ours = STRESS_KB[OURS].get(t.subscriptions)
        rows.append(
            (
                f"{t.subscriptions:,}",
                t.title,
                f"{t.stress / 1e3:,.3f}",
                _figure(times_ours(found, t, "stress", OURS)),
                f"{paper:,g}" if paper else "",
                _figure(paper / ours) if paper and ours else "",
                f"{t.going / 1e3:,.2f}",
            )
        )
    return Sheet(
        "What leaves the server over its links, kB per event (Table 3)",
        ("subscriptions", "scheme", "stress", "by Clu+", "paper", "by Clu+", "traffic for going"),
        tuple(rows),
        ("traffic for going: between nodes, for the tuples that go, which the paper doesn't count",),
        words=2,
    )  # fmt: skip


def star_sheet(found: Sequence[StarTrial], tuples_of_r: int, remark: str) -> Sheet:
    """Figures 11 and 12."""
    rows = []
    mine = [t for t in found if t.tuples_of_r == tuples_of_r]
    for t in mine:
        (plain,) = [o for o in mine if o.scheme == t.scheme and not o.is_star]
        rows.append(
            (
                t.title,
                f"{t.entries:,}" if t.is_star else "",
                f"{t.traffic / 1e3:,.1f}",
                f"{plain.traffic / t.traffic:.2f}",
                f"{plain.traffic / t.least:.2f}",
                f"{t.again / 1e3:,.1f}",
                f"{plain.again / t.again:,.1f}" if t.again else "",
                f"{t.stress / 1e3:,.2f}",
                f"{plain.stress / t.stress:.2f}",
                f"{t.latency:.3f}",
                f"{t.asked:,.1f}",
            )
        )
    return Sheet(
        f"CN* by the room of repositories (figures 11 and 12), {tuples_of_r} tuples of R",
        (
            "scheme", "entries", "traffic kB/event", "times less", "at best", "again kB/event", "times less",
            "stress kB/event", "times less", "hop latency", "asked/event",
        ),
        tuple(rows),
        (
            remark,
            "again: payloads of tuples that aren't new, which CN* is to save; the tuple that comes has a payload that "
            "no link has seen, so all traffic can't become less than that",
            "at best: what the messages allow, each payload once over each link that needs it, without headers",
            "a payload is asked for along the tree, and the first node that has it answers",
        ),
    )  # fmt: skip


def mix_sheet(found: Sequence[TrafficTrial]) -> Sheet:
    """Figure 13."""
    best = min(t.traffic for t in found)
    return Sheet(
        f"Multi-way mix, {found[0].subscriptions:,} subscriptions (figure 13)",
        ("S filtered by, in RST, RSTU, STU", "traffic kB/event", "by the best", "hops", "stress kB/event"),
        tuple(
            (
                t.title,
                _figure(t.traffic / 1e3),
                f"{t.traffic / best:.2f}",
                _figure(t.hops),
                _figure(t.stress / 1e3),
            )
            for t in sorted(found, key=lambda t: -t.traffic)
        ),
        (
            "in the paper the worst decomposition has 1.25 times the traffic of the best, and Rel-Sel 9 times",
            "(model), (simulation): the greedy decomposition by the parametric model, and by simulation",
            "Enum-J and Ref-J enumerate up to a million rows for an event here",
        ),
    )  # fmt: skip


def schema_sheet(found: Sequence[TrafficTrial]) -> Sheet:
    """Figure 14."""
    return Sheet(
        f"Star schema, {found[0].subscriptions:,} subscriptions (figure 14)",
        ("fact payload", "scheme", "traffic kB/event", "by Clu+", "paper", "hops"),
        tuple(
            (
                f"{t.at:g}",
                t.title,
                _figure(t.traffic / 1e3),
                _figure(times_ours(found, t, "traffic", OURS)),
                f"{STAR_TIMES[t.scheme]}" if not t.at and t.scheme in STAR_TIMES else "",
                _figure(t.hops),
            )
            for t in found
        ),
        (
            "chosen: ranges as in Table 2, so that a fact is in the range of S of 0.3 % of the subscriptions",
            "a row of four tables has hardly any reader in Ref-J; a binary semijoin knows of one neighbour only",
        ),
        words=2,
    )


EXPERIMENTS: dict[str, Callable[[JoinsWork, Step], Section]] = {
    "joins-subscriptions": by_subscriptions,
    "joins-database": lambda work, step: varied("joins-database", work, step),
    "joins-rate": lambda work, step: varied("joins-rate", work, step),
    "joins-payload": by_payload,
    "joins-overlap": lambda work, step: varied("joins-overlap", work, step),
    "joins-stocks": on_stocks,
    "joins-repository": by_repository,
    "joins-multiway": multi_way,
    "joins-star": star_schema,
}
