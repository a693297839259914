"""Joins of several tables: a mix behind each of six decompositions (figure 13), and the star schema (figure 14).

The other tables of the mix have one neighbour each; S has three, of which each select-join with several of them takes
the one that comes first in an order of the three. So there are six decompositions. The greedy one takes the order of
what semijoins cost, by the parametric model or by simulation.

The paper measures traffic in a network. Here *delivered* is what comes nearest: bytes by the subscribers who get them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from penstock.bench.joins import mixes
from penstock.bench.joins.published import OURS, RELAXED_TRAFFIC, STAR_TIMES, WORST_DECOMPOSITION
from penstock.bench.joins.trial import RESULTS, Referee, Trial, try_scheme
from penstock.bench.joins.workload import Workload
from penstock.bench.report import Sheet
from penstock.bench.sections import Step
from penstock.joins.decompose import Costs, Decomposition
from penstock.joins.processor import Processor

MULTIWAY, STAR = "multiway", "star"
ROUND = 4 * mixes.STRETCH  # events: each table had its turn
SMALL = mixes.General(200, ROUND + 1, join_values=20, tuples=(1, 7, 7, 3))  # rows can be enumerated
_SAMPLE = 2_000  # subscriptions, for the costs
STAR_CHECKED = 212  # events: four stretches


def multiway_trials(recipe: mixes.General, step: Step) -> Iterator[Trial]:
    """All decompositions and Rel-Sel, and before that the same on a small mix whose rows can be enumerated."""
    wrong = _small_disagreements(step)
    workload = mixes.draw_general(recipe)
    step("multi-way mix: costs")
    modelled, simulated = model_costs(workload)
    referee = Referee(RESULTS)
    for order in permutations("RTU"):
        name = " < ".join(order)
        step(f"multi-way mix: {name}")
        words = [
            word
            for word, costs in (("model", modelled), ("simulation", simulated))
            if cheapest_first(costs) == order
        ]
        label = name + (f" ({', '.join(words)})" if words else "")
        trial = _tried(
            workload, OURS, recipe.events - ROUND, referee, ordered(workload, order), label
        )
        yield _with(trial, wrong)
        wrong = []
    step("multi-way mix: Rel-Sel")
    yield _tried(workload, "rel-sel", recipe.events - ROUND, referee)


def _tried(
    workload: Workload,
    scheme: str,
    events: int,
    referee: Referee,
    decomposition: Decomposition | None = None,
    label: str = "",
) -> Trial:
    count = float(len(workload.joins))
    return try_scheme(workload, scheme, events, count, referee, decomposition, label, checked=ROUND)


def _small_disagreements(step: Step, recipe: mixes.General = SMALL) -> list[str]:
    """Whether any decomposition, or Rel-Sel, doesn't reach somebody whose rows change."""
    step("multi-way mix: checking a small one")
    workload, referee = mixes.draw_general(recipe), Referee(RESULTS)
    trials = [_tried(workload, scheme, 1, referee) for scheme in ("enum-j", "ref-j+", "rel-sel")]
    for order in permutations("RTU"):
        choice = ordered(workload, order)
        trials.append(_tried(workload, OURS, 1, referee, choice, " < ".join(order)))
    return [text for trial in trials for text in trial.disagreements]


def _with(trial: Trial, wrong: Sequence[str]) -> Trial:
    return replace(trial, disagreements=(*wrong, *trial.disagreements)) if wrong else trial


def ordered(workload: Workload, order: Sequence[str]) -> Decomposition:
    """S is filtered by the first neighbour in this order that a select-join has."""
    costs = {
        ("S", edge): float(order.index(edge.right if edge.left == "S" else edge.left))
        for edge in workload.catalog.edges
    }
    return Decomposition(costs)


def cheapest_first(costs: Costs) -> tuple[str, ...]:
    """The neighbours of S by what semijoins with them cost."""
    found = {
        (edge.right if edge.left == "S" else edge.left): cost
        for (base, edge), cost in costs.items()
        if base == "S"
    }
    return tuple(sorted(found, key=lambda name: found[name]))


def model_costs(workload: Workload) -> tuple[Costs, Costs]:
    """What semijoins cost by the parametric model, and by simulation, after each table had its turn."""
    some = np.random.default_rng(mixes.SEED).permutation(len(workload.joins))[:_SAMPLE]
    processor = Processor(workload.catalog, [workload.joins[n] for n in some.tolist()])
    processor.restore(workload.content)
    for batch in workload.batches(0, ROUND, ROUND):
        processor.process([batch])
    return processor.costs(), processor.costs(simulate=True)


def star_trials(recipe: mixes.Star, step: Step) -> Iterator[Trial]:
    """Facts without a payload, and with one."""
    for payload in (0, 100):
        step(f"star schema: facts with {payload} bytes")
        sized = replace(recipe, payload=payload)
        workload, referee = mixes.draw_star(sized), Referee(RESULTS)
        for scheme in ("ref-j", "enum-j", OURS, "rel-sel"):
            left = recipe.events - STAR_CHECKED
            yield try_scheme(workload, scheme, left, float(payload), referee, checked=STAR_CHECKED)


def multiway_sheet(found: Sequence[Trial]) -> Sheet:
    """Decompositions by what they deliver."""
    mine = [t for t in found if t.scheme == OURS]
    delivered, sent = min(t.delivered for t in mine), min(t.sent for t in mine)
    worst = max(t.delivered for t in mine) / delivered, max(t.sent for t in mine) / sent
    return Sheet(
        f"Multi-way mix, {found[0].subscriptions:,} subscriptions (figure 13)",
        (
            "S is filtered by",
            "sent bytes/event",
            "by the best",
            "delivered kB/event",
            "by the best",
            "reached",
            "µs/event",
        ),
        tuple(
            (
                t.title,
                f"{t.sent:,.0f}",
                f"{t.sent / sent:.2f}",
                f"{t.delivered / 1e3:,.1f}",
                f"{t.delivered / delivered:.2f}",
                f"{t.affected:,.0f}",
                f"{t.us:,.1f}",
            )
            for t in sorted(found, key=lambda t: -t.sent)
        ),
        (
            f"the worst decomposition sends {worst[1]:.2f} times what the best does, and delivers {worst[0]:.2f} "
            f"times; in the paper {WORST_DECOMPOSITION:.2f} times the traffic, and Rel-Sel has {RELAXED_TRAFFIC} times",
            "(model), (simulation): the greedy decomposition by the parametric model, and by simulation on samples; "
            "in the paper the model's is T < U < R, and the best",
            "reached: subscriptions per change. Enum-J and Ref-J enumerate up to a million rows for an event, and are "
            "only run on a small mix, where nobody they reach may be missed",
        ),
    )


def star_sheet(found: Sequence[Trial]) -> Sheet:
    """Schemes by the payload of facts."""
    rows = []
    for t in found:
        (best,) = [o for o in found if o.at == t.at and o.scheme == OURS]
        paper = STAR_TIMES.get(t.scheme) if not t.at else None
        rows.append(
            (
                f"{t.at:g}",
                t.title,
                f"{t.delivered / 1e3:,.2f}",
                f"{t.delivered / best.delivered:,.2f}",
                f"{t.sent:,.0f}",
                f"{t.sent / best.sent:,.2f}",
                f"{paper}" if paper else "",
                f"{t.us:,.1f}",
            )
        )
    return Sheet(
        f"Star schema, {found[0].subscriptions:,} subscriptions (figure 14)",
        (
            "fact payload",
            "scheme",
            "delivered kB/event",
            "by Ref-SJ-Clu+",
            "sent bytes/event",
            "by Ref-SJ-Clu+",
            "paper",
            "µs/event",
        ),
        tuple(rows),
        (
            "the paper's are ratios of network traffic, which is neither what is sent nor what is delivered",
            f"of 53 events 50 are facts; {STAR_CHECKED} events for what is delivered",
        ),
        words=2,
    )
