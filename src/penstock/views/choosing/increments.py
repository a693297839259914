"""A live configuration: views come, go, and fail with their site (delta §3.5).

A view that comes takes its cheapest rewriting, α times utilisation plus β times latency, whose inputs have room; if
there's none, the source. When views go, those that they fed are treated as if they were new, in order of rank, so that
what feeds them is settled before. The program and LOGA choose everything anew after so many additions, when the source
is full, or on request.

Every call leaves a valid configuration, or raises and leaves everything as it was. Views keep their numbers: those that
went leave a gap, and a new view's rank is above all others', as it feeds nobody yet. The graph grows at its end, in
arrays that have room to spare:

    views        0 1 2 x 4 5 │ 6           6 has come, 3 has gone
    rewritings   ……………………… │ …           of the rewritings that need 3 none is taken
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Float64s, Int64s, offsets
from penstock.base.errors import PenstockError
from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.choosing import NothingFound, choose
from penstock.views.choosing.configuration import check
from penstock.views.choosing.feeding import UNFED, Feeding, feeding
from penstock.views.choosing.graph_check import well_formed
from penstock.views.choosing.growing import GrowingArrays
from penstock.views.choosing.infeasible import Infeasible
from penstock.views.choosing.loga import WIDER, shorten
from penstock.views.choosing.refeeding import become, feed_one, take_out, usable
from penstock.views.choosing.user_lists import use
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph


class IncrementError(PenstockError):
    """A view that can't come or go: it isn't there, or its figures make no sense."""


class SourceFull(PenstockError):
    """A view can be fed from nowhere but the source, which is full."""


@dataclass(frozen=True)
class Policy:
    """What new views prefer, and when everything is chosen anew."""

    additions: int | None = 1000
    """After so many views have come; None: never."""
    when_full: bool = True
    """When a view needs the source, and the source is full. Otherwise the call is refused."""
    wider: float = WIDER
    """How much more than their capacity views may feed once the program has chosen."""
    seconds: float = 60.0
    """What choosing anew may take, and LOGA after it."""
    alpha: float = 1.0
    beta: float = 0.0


class Offer(NamedTuple):
    """A rewriting of a new view."""

    inputs: tuple[int, ...]
    utilisation: float
    latency: float


@dataclass(frozen=True)
class Arrival:
    """A new view: its rewritings, what it costs from the source, how many views it may feed, where it is."""

    offers: Sequence[Offer]
    source_utilisation: float
    source_latency: float
    capacity: int = UNLIMITED
    site: int | None = None


class FeedingChange(NamedTuple):
    """What a call did."""

    fed: Int64s
    """Views that are fed otherwise than before, new ones included."""
    added: Int64s
    chosen_anew: bool


class Standing(NamedTuple):
    """The views that are there, numbered without gaps."""

    views: Int64s
    """Their numbers."""
    rewritings: Int64s
    """The numbers of their rewritings."""
    graph: RewritingGraph
    configuration: Configuration
    costs: Costs
    capacities: Capacities


class LiveConfiguration:
    """A graph and its configuration, which follow what views come and go.

    >>> graph = RewritingGraph(*map(np.array, ([0, 0], [0], [], [0])))
    >>> costs = Costs(np.empty(0), np.empty(0), np.array([5.0]), np.array([1.0]))
    >>> live = LiveConfiguration(graph, Configuration(np.array([-1])), costs, Capacities(np.array([1]), 2))
    >>> live.add([Arrival([Offer((0,), 1.0, 1.0)], 5.0, 1.0)]).added.tolist()
    [1]
    >>> live.withdraw([0]).fed.tolist(), live.from_source
    ([1], 1)
    """

    def __init__(
        self,
        graph: RewritingGraph,
        configuration: Configuration,
        costs: Costs,
        capacities: Capacities,
        site: npt.ArrayLike | None = None,
        policy: Policy | None = None,
    ) -> None:
        """`capacities` are those of the program; what the policy adds to them is kept to from the beginning."""
        self.policy = policy or Policy()
        graph = well_formed(graph)
        wide = capacities.widen_views(self.policy.wider)
        check(graph, configuration, wide)
        views = len(graph.rank)
        sites = np.arange(views) if site is None else np.asarray(site, np.int64)
        if len(sites) != views:
            raise IncrementError(f"{views} views, but {len(sites)} sites")
        self._room = GrowingArrays(
            {
                **feeding(graph, configuration, costs, wide)._asdict(),
                "source_utilisation": costs.source_utilisation,
                "capacity": capacities.views,
                "site": sites,
                "there": np.ones(views, np.bool_),
            }
        )
        self._source_capacity = capacities.source
        self._since = 0
        self._renew()

    def _renew(self) -> None:
        """The kernels' arrays, after they have grown."""
        self._feed = Feeding(*(self._room[name] for name in Feeding._fields))

    @property
    def chosen(self) -> Int64s:
        """Per view its rewriting, `SOURCE`, or `UNFED` if it has gone."""
        return self._feed.chosen

    @property
    def there(self) -> Bools:
        """Per view whether it hasn't gone."""
        return self._room["there"]

    @property
    def latency(self) -> Float64s:
        """λ per view."""
        return self._feed.latency

    @property
    def load(self) -> Int64s:
        """Per view how many rewritings it takes part in."""
        return self._feed.load

    @property
    def from_source(self) -> int:
        """How many views the source feeds."""
        return int(np.count_nonzero(self.chosen == SOURCE))

    def inputs(self, view: int) -> tuple[int, ...]:
        """What a view is fed from: nothing if from the source."""
        self._know([view])
        r, feed = self.chosen[view], self._feed
        return () if r == SOURCE else tuple(feed.inputs[feed.start[r] : feed.start[r + 1]].tolist())

    def add(self, arrivals: Iterable[Arrival]) -> FeedingChange:
        """Feed new views; their numbers follow those that there were."""
        before = _Before(self)
        views = []
        try:
            views = [self._append(arrival) for arrival in arrivals]
            self._renew()
            anew = self._feed_all(views)
        except BaseException:  # whatever it was: everything stays as it was
            before.restore()
            raise
        self._since += len(views)
        if self.policy.additions is not None and self._since >= self.policy.additions:
            anew |= self._try_anew()
        return before.change(np.array(views, np.int64), anew)

    def withdraw(self, views: Iterable[int]) -> FeedingChange:
        """Take views out; those that they fed are fed from elsewhere."""
        gone = np.unique(np.array(list(views), np.int64))
        self._know(gone.tolist())
        before = _Before(self)
        try:
            self._room["there"][gone] = False
            left = take_out(self._feed, gone, self._room["there"])
            order = left[np.argsort(self._feed.rank[left], kind="stable")]
            anew = self._feed_all(order.tolist())
        except BaseException:  # whatever it was: everything stays as it was
            before.restore()
            raise
        return before.change(np.empty(0, np.int64), anew)

    def fail(self, site: int) -> FeedingChange:
        """A site is gone, and all its views with it."""
        return self.withdraw(np.flatnonzero((self._room["site"] == site) & self.there).tolist())

    def widen_source(self, capacity: int) -> None:
        """Let the source feed more views, or fewer, as long as it feeds no more already."""
        if capacity < self.from_source:
            raise IncrementError(f"the source feeds {self.from_source} views, more than {capacity}")
        self._source_capacity = capacity

    def choose_anew(self) -> FeedingChange:
        """Choose everything anew, by the program and LOGA."""
        before = _Before(self)
        self._anew()
        return before.change(np.empty(0, np.int64), True)

    def standing(self) -> Standing:
        """The views that are there now, and all that is known of them."""
        views, kept, graph = self._compact()
        costs = self._costs()
        place = np.full(len(costs.utilisation) + 1, SOURCE, np.int64)
        place[kept] = np.arange(len(kept))
        return Standing(
            views,
            kept,
            graph,
            Configuration(place[np.maximum(self.chosen[views], SOURCE)]),
            Costs(
                costs.utilisation[kept],
                costs.latency[kept],
                costs.source_utilisation[views],
                costs.source_latency[views],
            ),
            Capacities(self._room["capacity"][views], self._source_capacity),
        )

    def _know(self, views: Sequence[int]) -> None:
        for view in views:
            if not 0 <= view < len(self.there) or not self.there[view]:
                raise IncrementError(f"there is no view {view}")

    def _append(self, arrival: Arrival) -> int:
        """A new view at the end of all arrays, fed from nowhere yet."""
        view, room = self._room.used["chosen"], self._room
        _check_arrival(arrival, room["there"])
        rank = int(room["rank"].max()) + 1 if view else 0
        wide = Capacities(np.array([arrival.capacity]), 0).widen_views(self.policy.wider).views
        for offer in arrival.offers:
            room.extend("inputs", sorted(offer.inputs))
            room.extend("start", [room.used["inputs"]])
            room.extend("owner", [view] * len(offer.inputs))
            room.extend("after", [-1] * len(offer.inputs))
            room.extend("before", [-1] * len(offer.inputs))
        room.extend("utilisation", [offer.utilisation for offer in arrival.offers])
        room.extend("local", [offer.latency for offer in arrival.offers])
        room.extend("first", [room.used["utilisation"]])
        for name, value in (
            ("rank", rank),
            ("from_source", arrival.source_latency),
            ("source_utilisation", arrival.source_utilisation),
            ("chosen", UNFED),
            ("load", 0),
            ("latency", 0.0),
            ("head", -1),
            ("heap", 0),
            ("queued", False),
            ("capacity", arrival.capacity),
            ("most", wide[0]),
            ("site", room["site"].max(initial=-1) + 1 if arrival.site is None else arrival.site),
            ("there", True),
        ):
            room.extend(name, [value])
        return view

    def _feed_all(self, views: Sequence[int]) -> bool:
        """Feed views that are fed from nowhere. Whether everything had to be chosen anew for that."""
        free = self._source_capacity - self.from_source
        for view in views:
            alpha, beta = self.policy.alpha, self.policy.beta
            if feed_one(self._feed, self.there, view, free > 0, alpha, beta):
                free -= self.chosen[view] == SOURCE
                continue
            if not self.policy.when_full:
                raise SourceFull(
                    f"view {view} has no rewriting with room, and the source is full: it feeds {self.from_source}"
                )
            self._anew()
            return True
        return False

    def _try_anew(self) -> bool:
        """Choose anew because it is time; the present configuration stays if no other is found."""
        self._since = 0
        try:
            self._anew()
        except (Infeasible, NothingFound):  # LOGA's wider capacities let it be valid all the same
            return False
        return True

    def _anew(self) -> None:
        standing = self.standing()
        graph, costs, capacities = standing.graph, standing.costs, standing.capacities
        found = choose(graph, costs, capacities, self.policy.seconds).configuration
        wide = capacities.widen_views(self.policy.wider)
        found = shorten(graph, found, costs, wide, self.policy.seconds).configuration
        chosen = np.full(len(self.chosen), UNFED, np.int64)
        chosen[standing.views] = np.append(standing.rewritings, SOURCE)[found.chosen]
        become(self._feed, chosen)
        self._since = 0

    def _costs(self) -> Costs:
        room = self._room
        return Costs(
            room["utilisation"], room["local"], room["source_utilisation"], room["from_source"]
        )

    def _compact(self) -> tuple[Int64s, Int64s, RewritingGraph]:
        """The graph of the views that are there: their numbers, their rewritings' numbers, the graph."""
        feed = self._feed
        views = np.flatnonzero(self.there)
        useful = usable(feed, self.there)
        kept = np.flatnonzero(useful)
        count = np.add.reduceat(np.append(useful, False), feed.first[:-1], dtype=np.int64)
        count[np.diff(feed.first) == 0] = 0
        width = np.diff(feed.start)[kept]
        number = np.cumsum(self.there) - 1
        entries = np.repeat(useful, np.diff(feed.start))
        graph = RewritingGraph(
            offsets(count[views]),
            offsets(width),
            number[feed.inputs[entries]].astype(np.int32),
            feed.rank[views],
        )
        return views, kept, graph


class _Before:
    """How everything was, to say what changed or to put it back."""

    def __init__(self, live: LiveConfiguration) -> None:
        self.live = live
        self.used = dict(live._room.used)
        self.chosen, self.there = live.chosen.copy(), live.there.copy()

    def restore(self) -> None:
        for view in range(len(self.chosen), len(self.live.chosen)):
            use(self.live._feed, view, UNFED)
        self.live._room.used = self.used
        self.live._renew()
        self.live.there[:] = self.there
        become(self.live._feed, self.chosen)

    def change(self, added: Int64s, anew: bool) -> FeedingChange:
        now, known = self.live.chosen, len(self.chosen)
        changed = np.ones(len(now), np.bool_)
        changed[:known] = now[:known] != self.chosen
        return FeedingChange(np.flatnonzero(changed & self.live.there), added, anew)


def _check_arrival(arrival: Arrival, there: Bools) -> None:
    figures = [arrival.source_utilisation, arrival.source_latency]
    for offer in arrival.offers:
        figures += [offer.utilisation, offer.latency]
        if not offer.inputs or len(set(offer.inputs)) < len(offer.inputs):
            raise IncrementError(
                f"a rewriting's inputs must be one or more different views, not {offer.inputs}"
            )
        for view in offer.inputs:
            if not 0 <= view < len(there) or not there[view]:
                raise IncrementError(f"a rewriting needs view {view}, which isn't there")
    if not np.isfinite(figures).all() or min(figures) < 0:
        raise IncrementError("utilisations and latencies must be finite numbers from 0 on")
    if arrival.capacity < 0 or (arrival.site is not None and arrival.site < 0):
        raise IncrementError("capacities and sites must be numbers from 0 on")
