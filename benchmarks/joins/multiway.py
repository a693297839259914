"""Joins of several tables: a mix behind each of six decompositions (figure 13), and the star schema (figure 14).

R, T and U have one neighbour each; S has three. So a decomposition says which of them filters S in select-joins of each
signature: R or T in R⋈S⋈T, any in R⋈S⋈T⋈U, T or U in S⋈T⋈U, which makes twelve. As in the paper six of them are tried,
drawn once and for all, and among them the greedy one by the parametric model and the one by simulation.

The paper measures traffic in a network. Here *delivered* is what comes nearest: bytes by the subscribers who get them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.baselines.joins.planning import PlanningProcessor
from benchmarks.benchmark import Step
from benchmarks.joins import mixes
from benchmarks.joins.published import OURS, RELAXED_TRAFFIC, STAR_TIMES, WORST_DECOMPOSITION
from benchmarks.joins.trial import RESULTS, Referee, Trial, try_scheme
from benchmarks.joins.workload import Workload
from benchmarks.sheets import Sheet
from penstock.joins.decompose import Decomposition, SemijoinCosts
from penstock.joins.subscription import JoinEdge, SelectJoin

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
    best = {"model": greedy(modelled), "simulation": greedy(simulated)}
    for choice in six(list(best.values())):
        words = ", ".join(word for word, its in best.items() if its == choice)
        label = ", ".join(choice) + (f" ({words})" if words else "")
        step(f"multi-way mix: {label}")
        trial = _tried(workload, OURS, recipe.events - ROUND, referee, Chosen(choice), label)
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


def _small_disagreements(step: Step) -> list[str]:
    """Whether any decomposition, or Rel-Sel, doesn't reach somebody whose rows change."""
    step("multi-way mix: checking a small one")
    workload, referee = mixes.draw_general(SMALL), Referee(RESULTS)
    trials = [_tried(workload, scheme, 1, referee) for scheme in ("enum-j", "ref-j+", "rel-sel")]
    trials += [
        _tried(workload, OURS, 1, referee, Chosen(choice), ", ".join(choice)) for choice in six([])
    ]
    return [text for trial in trials for text in trial.disagreements]


def _with(trial: Trial, wrong: Sequence[str]) -> Trial:
    return replace(trial, disagreements=(*wrong, *trial.disagreements)) if wrong else trial


Choice = tuple[str, str, str]
"""By which tables S is filtered in R⋈S⋈T, R⋈S⋈T⋈U and S⋈T⋈U."""
_SIGNATURES = ("RST", "RSTU", "STU")


class Chosen(Decomposition):
    """S is filtered as somebody chose; in R⋈S there is nothing to choose."""

    choice: dict[str, str]

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        object.__setattr__(self, "choice", dict(zip(_SIGNATURES, choice, strict=True)))

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        chosen = self.choice.get("".join(sorted(join.tables)), "R")
        return tuple(
            (table, next(edge for edge in join.edges if other in (edge.left, edge.right)))
            for table in join.tables
            for other in (chosen if table == "S" else table,)
        )


def greedy(costs: SemijoinCosts) -> Choice:
    """The choice of the neighbours with which semijoins cost least."""
    cost = {neighbour(edge): c for (base, edge), c in costs.items() if base == "S"}
    first, second, third = (
        min(signature.replace("S", ""), key=lambda name: cost[name]) for signature in _SIGNATURES
    )
    return first, second, third


def neighbour(edge: JoinEdge) -> str:
    """The table at the other end from S."""
    return edge.right if edge.left == "S" else edge.left


def six(always: Sequence[Choice]) -> list[Choice]:
    """Six different choices, some of them given."""
    every = list(product("RT", "RTU", "TU"))
    drawn = np.random.default_rng(mixes.SEED).permutation(len(every)).tolist()
    return list(dict.fromkeys([*always, *[every[n] for n in drawn]]))[:6]


def model_costs(workload: Workload) -> tuple[SemijoinCosts, SemijoinCosts]:
    """What semijoins cost by the parametric model, and by simulation, after each table had its turn."""
    some = np.random.default_rng(mixes.SEED).permutation(len(workload.joins))[:_SAMPLE]
    processor = PlanningProcessor(workload.catalog, [workload.joins[n] for n in some.tolist()])
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
            "S filtered by, in RST, RSTU, STU",
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
            "in the paper the model's takes T, T, T, and is the best",
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
