"""The tables of section 5 with ours beside them."""

from collections.abc import Mapping, Sequence

from benchmarks.sheets import Sheet
from benchmarks.views import published
from benchmarks.views.configurations import Configured
from benchmarks.views.instances import Grown

PAPER, OURS = "in the paper", "Penstock"


def graph_sheet(g: Grown) -> Sheet:
    """Table 2."""
    p = published
    rows = [
        ("views, unique", f"{g.unique:,}", f"{p.VIEWS:,}"),
        ("predicates per view", f"{g.predicates:.2f}", f"{p.PREDICATES:.2f}"),
        ("predicates per node", f"{g.predicates / g.nodes:.2f}", f"{p.PREDICATES_PER_NODE:.2f}"),
        ("nodes per view", f"{g.nodes:.2f}", f"{p.NODES:.2f}"),
        ("return nodes per view", f"{g.returned:.2f}", f"{p.RETURNED:.2f}"),
        ("embedding graph: edges", f"{g.edges:,}", f"{p.EDGES:,}"),
        ("edges removed with cycles", f"{g.removed:,}", f"{p.EDGES_REMOVED:,}"),
        ("views with one embedded", f"{g.with_embedded:.2%}", f"{p.WITH_EMBEDDED:.2%}"),
        ("seconds", f"{g.flat_seconds + g.graph_seconds:.1f}", f"{p.GRAPH_SECONDS:.0f}"),
        ("rewritability graph: rewritings", f"{g.rewritings:,}", f"{p.REWRITINGS:,}"),
        ("edges", f"{g.rewritings + g.inputs:,}", f"{p.REWRITING_EDGES:,}"),
        ("seconds", f"{g.rewriting_seconds:.1f}", f"{p.REWRITING_SECONDS:.0f}"),
        ("views rewritten", f"{g.rewritten:,}", f"{p.REWRITTEN:,}"),
        ("views per rewriting", f"{g.inputs / g.rewritings:.2f}", f"{p.VIEWS_PER_REWRITING:.2f}"),
        ("rewritings that a view is used in", f"{g.inputs / g.views:.1f}", f"{p.FEEDS:.1f}"),
    ]
    return Sheet(
        "Views and their graphs (Table 2)",
        ("", OURS, PAPER),
        tuple(rows),
        (
            f"at most 30 rewritings of a view; {g.threads} threads against the paper's 8 cores",
            "views are drawn so that the paper's averages hold; predicates must be implied, not just not contradicted",
        ),
    )


def utilisation_sheet(found: Sequence[Configured]) -> Sheet:
    """Table 3."""
    p = published
    last = found[-1]
    rows = [
        (
            c.capacity,
            f"{c.source:,}",
            f"{c.chosen.off_loaded:.1%}",
            _said(p.OFF_LOADED, c.capacity, ".1%"),
            f"{c.chosen.utilisation / last.chosen.utilisation:.3f}",
            _said(_by(p.UTILISATION, last.capacity), c.capacity, ".3f"),
            f"{c.chosen.used:.2f}",
            _said(p.USED_PER_VIEW, c.capacity, ".2f"),
            "0 (exact)" if c.exact else f"{c.gap:.2%}",
            f"{c.program_seconds:.1f}",
            _said(p.PROGRAM_SECONDS, c.capacity, ".0f"),
        )
        for c in found
    ]
    return Sheet(
        "Configurations of least utilisation (Table 3)",
        (
            "capacity",
            "of the source",
            "off-loaded",
            "paper",
            f"utilisation by {last.capacity}",
            "paper",
            "views per rewriting",
            "paper",
            "gap",
            "seconds",
            "paper s",
        ),
        tuple(rows),
        (
            f"the source may feed {p.MARGIN} times the views without a rewriting (in the paper {p.SOURCE_FEEDS:,}), "
            "or if that can't be done 5 % more than the fewest that can",
            _fullness(found),
            "gap: at most so much less utilisation is possible",
            "utilisation by that of the last capacity: the paper's unit isn't known",
        ),
    )


def _fullness(found: Sequence[Configured]) -> str:
    """Where it is the source's capacity that decides how much is off-loaded, and not the program."""
    full = [c.capacity for c in found if c.chosen.levels[0] == c.source]
    where = f"for capacity {', '.join(full)}" if full else "for no capacity"
    return f"the source feeds all that it may {where}: there off-loading is as much as that leaves"


def _said(table: Mapping[str, float], capacity: str, form: str) -> str:
    """A figure of the paper, if it has one."""
    return format(table[capacity], form) if capacity in table else ""


def _by(table: Mapping[str, float], capacity: str) -> dict[str, float]:
    """A table by its figure for a capacity, if it has one."""
    if capacity not in table:
        return {}
    return {one: value / table[capacity] for one, value in table.items()}


def loga_sheet(found: Sequence[Configured]) -> Sheet:
    """Figure 5, and what shorter paths cost."""
    low, high = published.MORE_UTILISATION
    rows = [
        (
            c.capacity,
            f"{c.latency_saved:.1%}",
            f"{published.LATENCY_SAVED:.0%}",
            f"{c.more_utilisation:+.1%}",
            f"+{low:.0%} to +{high:.0%}",
            f"{c.loga_seconds:.1f}",
            "{:.0f} to {:.0f}".format(*published.LOGA_SECONDS),
        )
        for c in found
    ]
    return Sheet(
        "Shorter paths with LOGA (figure 5)",
        ("capacity", "latency saved", "paper", "utilisation", "paper", "seconds", "paper s"),
        tuple(rows),
        (f"LOGA may use {published.WIDER} times the capacity; the paper's 43 % rise to 50 %",),
    )


def levels_sheet(title: str, found: Sequence[Configured]) -> Sheet:
    """Figures 6 and 7: how many views are in each level."""
    rows = []
    for c in found:
        for name, state in (("program", c.chosen), ("LOGA", c.shortened)):
            shown = [f"{n:,}" for n in state.levels[:12]]
            rows.append((
                c.capacity, name, f"{len(state.levels)}", f"{state.within(6):.1%}",
                *shown, *[""] * (12 - len(shown)), f"{sum(state.levels[12:]):,}",
            ))  # fmt: skip
    columns = ("capacity", "", "levels", "in 1 to 6", *map(str, range(1, 13)), "more")
    remark = (
        f"in the paper LOGA leaves at most {published.MOST_LEVELS} levels of up to 19, "
        f"and about {1 - published.IN_SIX_LEVELS:.1%} of the views below the sixth"
    )
    return Sheet(title, columns, tuple(rows), (remark,), words=2)


def deployment_sheet(g: Grown, found: Sequence[Configured]) -> Sheet:
    """Section 5.5 without its network."""
    rows = [
        (
            c.capacity,
            f"{c.chosen.levels[0]:,}",
            f"{len(c.chosen.levels)}",
            f"{len(c.shortened.levels)}",
            f"{c.latency_saved:.1%}",
            f"{c.more_utilisation:+.1%}",
            "0 (exact)" if c.exact else f"{c.gap:.2%}",
            f"{c.program_seconds:.1f}",
            f"{c.loga_seconds:.1f}",
        )
        for c in found
    ]
    return Sheet(
        "Views of which many are the same (section 5.5)",
        (
            "capacity",
            "from the source",
            "levels",
            "after LOGA",
            "latency saved",
            "utilisation",
            "gap",
            "program s",
            "LOGA s",
        ),
        tuple(rows),
        (
            f"{g.views:,} views, {g.unique:,} different ones (in the paper 10,000 and about 3,000); "
            f"{g.views - g.rewritten} can't be rewritten, the source may feed {published.POPULAR_SOURCE}",
            f"{g.edges:,} embeddings in {g.graph_seconds:.1f} s, {g.rewritings:,} rewritings in "
            f"{g.rewriting_seconds:.1f} s",
        ),
    )
