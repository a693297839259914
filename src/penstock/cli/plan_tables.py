"""A plan of views as a table, as `rich` prints it."""

import numpy as np
from rich.table import Table

from penstock.views.choosing.capacities import capacity_text
from penstock.views.plan_file import ViewsPlan


def plan_table(plan: ViewsPlan) -> Table:
    """A plan in short, level by level: the number of views, their load and their latency."""
    level, load, latency = plan.level, plan.load, plan.latency
    table = Table(
        title=f"{len(level):,} views, {plan.from_source:,} fed from the source "
        f"(it may feed {capacity_text(plan.capacities.source)}); {plan.feeding_limit()}"
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
        table.add_column(name, justify="right", no_wrap=" " not in name)
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
