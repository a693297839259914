"""The paper's tables for configurations, as `rich` prints them: Table 3, figure 6 and LOGA's reduction as numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from penstock.arrays import Int64s
from penstock.views.choosing.capacities import written
from penstock.views.choosing.choosing import Choice
from penstock.views.choosing.configuration import inputs_of
from penstock.views.choosing.loga import Shortened
from penstock.views.plan_file import ViewsPlan
from penstock.views.rewriting_graph import SOURCE, Configuration, RewritingGraph


class Offloading(NamedTuple):
    """How much of the source's work a configuration gives to views."""

    rewritten: float
    """The share of views that aren't fed from the source."""
    per_rewriting: float
    """How many views a chosen rewriting has as inputs, on average."""


def offloading(graph: RewritingGraph, configuration: Configuration) -> Offloading:
    """The figures of Table 3 that don't depend on costs.

    >>> graph = RewritingGraph(*map(np.array, ([0, 0, 1], [0, 1], [0], [0, 1])))
    >>> offloading(graph, Configuration(np.array([-1, 0])))
    Offloading(rewritten=0.5, per_rewriting=1.0)
    """
    views = len(configuration.chosen)
    fed = int(np.count_nonzero(configuration.chosen != SOURCE))
    inputs = len(inputs_of(graph, configuration).inputs)
    return Offloading(fed / views if views else 0.0, inputs / fed if fed else 0.0)


def choices_table(graph: RewritingGraph, choices: Mapping[int, Choice]) -> Table:
    """Table 3: a column for each capacity of the views."""
    table = Table(title="Configurations of least utilisation (Table 3)")
    table.add_column("capacity")
    for capacity in choices:
        table.add_column(written(capacity), justify="right")
    figures = [offloading(graph, choice.configuration) for choice in choices.values()]
    found = list(choices.values())
    table.add_row("% rewritten views", *(f"{100 * f.rewritten:.2f}" for f in figures))
    table.add_row("utilisation", *(f"{c.utilisation:.4g}" for c in found))
    table.add_row("views per rewriting", *(f"{f.per_rewriting:.2f}" for f in figures))
    table.add_row(
        "gap to the bound, %", *("exact" if c.exact else f"{100 * c.gap:.3f}" for c in found)
    )
    table.add_row("seconds", *(f"{c.seconds:.1f}" for c in found))
    return table


def levels_table(levels: Mapping[str, Int64s]) -> Table:
    """Figure 6 as numbers: how many views each level has, and what share is in it or before it."""
    table = Table(title="Views across levels (figure 6)")
    table.add_column("level", justify="right")
    for name in levels:
        table.add_column(name, justify="right")
        table.add_column("up to it", justify="right")
    last = max((int(values.max(initial=0)) for values in levels.values()), default=0)
    for level in range(1, last + 1):
        cells = []
        for values in levels.values():
            upto = np.count_nonzero(values <= level) / max(1, len(values))
            cells += [f"{np.count_nonzero(values == level):,}", f"{100 * upto:.1f} %"]
        table.add_row(str(level), *cells)
    return table


def shortened_table(found: Mapping[int, Shortened]) -> Table:
    """What LOGA did: a column for each capacity that the program had."""
    table = Table(title="Latency after LOGA")
    table.add_column("capacity")
    for capacity in found:
        table.add_column(written(capacity), justify="right")
    each: Sequence[Shortened] = list(found.values())
    table.add_row("latency less, %", *(f"{100 * s.reduction:.1f}" for s in each))
    table.add_row("utilisation more, %", *(f"{100 * _growth(s):.1f}" for s in each))
    table.add_row("rewritings replaced", *(f"{s.replaced:,}" for s in each))
    table.add_row("rounds", *(str(s.rounds) for s in each))
    table.add_row("seconds", *(f"{s.seconds:.1f}" for s in each))
    return table


def _growth(found: Shortened) -> float:
    return found.utilisation / found.utilisation_before - 1 if found.utilisation_before else 0.0


def plan_table(plan: ViewsPlan) -> Table:
    """A plan in short: level by level, how many views, how loaded, how late."""
    level, load, latency = plan.level, plan.load, plan.latency
    table = Table(
        title=f"{len(level):,} views, {plan.from_source:,} fed from the source "
        f"(it may feed {written(plan.capacities.source)})"
    )
    for name in (
        "level",
        "views",
        "feed others",
        "mean load",
        "most",
        "full",
        "mean latency",
        "utilisation",
    ):
        table.add_column(name, justify="right")
    for number in range(1, int(level.max(initial=0)) + 1):
        here = level == number
        feeding = load[here]
        full = np.count_nonzero(feeding >= np.maximum(plan.capacities.views[here], 1))
        table.add_row(
            str(number),
            f"{np.count_nonzero(here):,}",
            f"{np.count_nonzero(feeding):,}",
            f"{feeding.mean():.2f}",
            f"{feeding.max():,}",
            f"{full:,}",
            f"{latency[here].mean():.4g}",
            f"{plan.utilisation[here].sum():.4g}",
        )
    return table
