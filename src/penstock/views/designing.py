"""From the texts of views to a plan: graphs, costs, the configuration of least utilisation, shorter paths.

    read ─▶ measure ─▶ embeddings ─▶ rewritings ─▶ choose (delta §3.3) ─▶ shorten (delta §3.4) ─▶ plan

The tuples and bytes of views per document are measured on sample documents. Without samples each view counts as one
tuple per document, with the bytes guessed from its nodes and the texts that it returns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from penstock.base.arrays import Float64s
from penstock.base.errors import PenstockError, SubscriptionErrors
from penstock.views.choosing.capacities import Capacities, capacities
from penstock.views.choosing.choosing import ConfigurationChoice, choose
from penstock.views.choosing.cost_model import CostModel, ViewStatistics, costs, statistics
from penstock.views.choosing.loga import THRIFT, Shortened, shorten
from penstock.views.documents.documents import Documents
from penstock.views.extraction.volumes import volumes
from penstock.views.pattern_parser import parse_patterns
from penstock.views.plan_file import ViewsPlan, plan_of
from penstock.views.rewriting.embedding_graph import EmbeddingGraph
from penstock.views.rewriting.graphs import Graphs, find_graphs
from penstock.views.rewriting.rewriting import RewritingLimits
from penstock.views.rewriting_graph import RewritingGraph
from penstock.views.tree_pattern import Returns, TreePattern

MARGIN = 1.2
"""The source's capacity, unless one is given, is so many times the views that nothing else can feed (delta §5.3)."""

_ID_BYTES, _TEXT_BYTES = 8, 32  # of an id and of a text in a tuple, if nothing was measured

TellPhase = Callable[[str], None]
"""Is called with the name of each phase as it begins."""

MakeGraphs = Callable[[Sequence[TreePattern], RewritingLimits, Float64s], Graphs]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a plan has to keep to. The source's default capacity is a fifth more than is needed (`MARGIN`).

    Capacities of views are multiplied by `wider` before paths are shortened: if views should feed 10 and may feed 15,
    paths are shorter with 1.5 (`loga.WIDER`, as in delta §5.4).
    """

    capacity: str | float = 30
    source_capacity: str | float | None = None
    rewritings: int = 30
    wider: float = 1.0
    thrift: float = THRIFT
    seconds: float = 120.0
    model: CostModel = field(default_factory=CostModel)


@dataclass(frozen=True)
class Design:
    """A plan, and all that it was made from."""

    plan: ViewsPlan
    embedding: EmbeddingGraph
    rewriting: RewritingGraph
    choice: ConfigurationChoice
    shortened: Shortened
    seconds: dict[str, float]


def plan_views(
    texts: Sequence[str],
    wishes: Wishes | None = None,
    documents: Documents | None = None,
    step: TellPhase | None = None,
    make_graphs: MakeGraphs | None = None,
) -> Design:
    """Plan where views are fed from. `SubscriptionErrors` names all texts that are not patterns.

    >>> found = plan_views(["//a{val}", "//a[. = '5']{val}", "//b"], Wishes(capacity=1, source_capacity=2))
    >>> [found.plan.inputs(view) for view in range(3)]
    [(), (0,), ()]
    """
    wishes = wishes or Wishes()
    clock = _Clock(step)
    clock.begin("reading patterns")
    read, errors = parse_patterns(texts)
    if errors:
        raise SubscriptionErrors(errors)
    patterns = [pattern for pattern in read if pattern is not None]
    if not patterns:
        raise PenstockError("there are no views to plan for")
    clock.begin("measuring views")
    found = measure_views(patterns, documents)
    clock.begin("looking for embeddings and rewritings")
    limits = RewritingLimits.of(wishes.rewritings)
    embedding, graph = (make_graphs or find_graphs)(patterns, limits, found.size)
    clock.begin("choosing what feeds what")
    priced = costs(graph, found, wishes.model)
    limit = _capacities(wishes, graph)
    choice = choose(graph, priced, limit, seconds=wishes.seconds)
    clock.begin("shortening paths")
    wide = limit.widen_views(wishes.wider)
    shortened = shorten(graph, choice.configuration, priced, wide, wishes.seconds, wishes.thrift)
    clock.begin("")
    notes = {
        "embeddings": embedding.edges,
        "rewritings": len(graph.start) - 1,
        "views_that_can_be_rewritten": int(np.count_nonzero(np.diff(graph.first))),
        "utilisation_chosen": choice.utilisation,
        "utilisation_bound": choice.bound,
        "utilisation": shortened.utilisation,
        "latency_chosen": shortened.latency_before,
        "latency": shortened.latency,
        **{f"seconds {phase}": round(took, 3) for phase, took in clock.seconds.items()},
    }
    if wishes.wider != 1:
        notes["capacity_wider"] = wishes.wider
    plan = plan_of(list(texts), graph, shortened.configuration, priced, wide, notes)
    return Design(plan, embedding, graph, choice, shortened, clock.seconds)


@dataclass(frozen=True)
class Planning:
    """All views at one moment by number, to be planned while others come and go. `changes` counts those until then."""

    numbers: tuple[int, ...]
    texts: tuple[str, ...]
    wishes: Wishes
    samples: Documents | None
    changes: int

    def run(self) -> dict[int, list[int]]:
        """For each view the views that feed it, or no views if the source does. PenstockError if there is no plan."""
        plan = plan_views(self.texts, self.wishes, self.samples).plan
        return {
            number: [self.numbers[used] for used in plan.inputs(row)]
            for row, number in enumerate(self.numbers)
        }


def measure_views(patterns: Sequence[TreePattern], documents: Documents | None) -> ViewStatistics:
    """Tuples and bytes per document of each view, on samples or by its returned attributes."""
    if documents is not None:
        volume = volumes(patterns, documents)
        return statistics(volume.tuples, volume.size)
    texts = [
        sum(Returns.VAL in node.returns or Returns.CONT in node.returns for node in pattern.nodes)
        for pattern in patterns
    ]
    nodes = np.array([len(pattern.nodes) for pattern in patterns])
    return statistics(np.ones(len(patterns)), _ID_BYTES * nodes + _TEXT_BYTES * np.array(texts))


def _capacities(wishes: Wishes, graph: RewritingGraph) -> Capacities:
    source = wishes.source_capacity
    if source is None:
        source = int(np.ceil(MARGIN * np.count_nonzero(np.diff(graph.first) == 0)))
    return capacities(len(graph.rank), wishes.capacity, source)


class _Clock:
    """How long each phase takes."""

    def __init__(self, step: TellPhase | None) -> None:
        self.seconds: dict[str, float] = {}
        self._step = step
        self._phase, self._began = "", monotonic()

    def begin(self, phase: str) -> None:
        now = monotonic()
        if self._phase:
            self.seconds[self._phase] = now - self._began
        self._phase, self._began = phase, now
        if phase and self._step is not None:
            self._step(phase)
