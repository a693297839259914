"""Views that come and go while documents flow (delta §3.5).

    comes     read ─▶ rewritten from the views that are there ─▶ costed ─▶ fed by the cheapest that has room,
              else from the source
    goes      what it fed is fed anew, in the same way
    all       planned by the program and LOGA (`designing`) after many changes (`base.growth`), when very many views
              come at once, and when the source is full

Whoever can't wait for a plan of all asks for it `later`: views that come are fed one by one, or, if there are very many
of them, from the source, and `planning` is to be run aside. What it gives is taken over by the views that are there
then. That is so as long as the source has room for all: whether a subscription is served must not depend on how fast
somebody plans.

The configuration is all that is kept (`choosing.running`); rewritings are looked for when they are needed, among the
views that have room then (`rewriting.view_index`). A plan says all of it: `LiveViews.of` a plan goes on as the views
that it was made from. The same changes lead to the same plan, unless planning all runs out of its seconds, or is left
for later.

Subscriptions with equal patterns are one view. One that can't be read or fed is refused, alone; those that found the
source full are tried again when it has room.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import numpy as np

from penstock.base.arrays import distinct, offsets
from penstock.base.errors import FilterError, PenstockError
from penstock.base.growth import many_changes
from penstock.views.choosing.capacities import UNLIMITED, capacities
from penstock.views.choosing.configuration import Inputs, levels_of
from penstock.views.choosing.cost_model import costs, statistics
from penstock.views.choosing.running import Offer, RunningConfiguration
from penstock.views.designing import Planning, Wishes, measure_views
from penstock.views.documents.documents import Documents
from penstock.views.pattern_parser import parse_pattern
from penstock.views.pattern_text import pattern_text
from penstock.views.plan_file import ViewsPlan
from penstock.views.rewriting.rewriting import RewritingLimits
from penstock.views.rewriting.view_index import ViewIndex, rewritings_from
from penstock.views.rewriting_graph import RewritingGraph
from penstock.views.tree_pattern import TreePattern

_CHANGES = "changes since all was planned"
_log = logging.getLogger(__name__)
_FEW = 200  # views that come at once and are fed one by one, however few there are
_TOGETHER = 200  # views that rewritings are looked for at once
_SHARE_WHEN_FULL = 100  # a full source has all planned once a hundredth of the views has changed


@dataclass(frozen=True, kw_only=True)
class LiveOptions(Wishes):
    """What the running configuration keeps to, and what views that come prefer."""

    plan: Literal["live", "direct"] = "live"
    """`direct`: every view is extracted from the documents, and nothing is planned."""
    source_capacity: str | float | None = "unlimited"
    alpha: float = 1.0
    """What a unit of utilisation counts for a view that comes."""
    beta: float = 0.0
    """What a second of latency counts."""


@dataclass(slots=True)
class _View:
    """A pattern, the subscriptions that ask for it, and what it has per document."""

    pattern: TreePattern
    text: str
    tuples: float
    size: float
    ids: set[int] = field(default_factory=set)


class LiveViews:
    """The views of subscriptions that come and go, and what each is fed from.

    >>> live = LiveViews()
    >>> live.update({7: "//a{val}", 8: "//a[. = '5']", 9: "//"}, [])
    {9: 'the pattern breaks off at line 1, column 3'}
    >>> plan = live.plan()
    >>> plan.ids.tolist(), [plan.inputs(row) for row in range(2)]
    ([7, 8], [(), (0,)])
    >>> live.update({}, [7]), live.plan().inputs(0)
    ({}, ())
    """

    def __init__(
        self, options: LiveOptions | None = None, samples: Documents | None = None
    ) -> None:
        """What views have of a document is measured on `samples`, if there are any."""
        self.options = options or LiveOptions()
        self.refused: dict[int, str] = {}
        """The subscriptions that have no view, and why."""
        self._samples = samples
        self._live = self.options.plan == "live"
        self._limits = RewritingLimits.of(self.options.rewritings)
        source = self.options.source_capacity if self._live else None
        each = capacities(1, self.options.capacity, UNLIMITED if source is None else source)
        wide = each.widen_views(self.options.wider)
        self._running = RunningConfiguration(wide, self.options.alpha, self.options.beta)
        self._views: dict[int, _View] = {}
        self._numbers: dict[TreePattern, int] = {}
        self._view_of: dict[int, int] = {}
        self._waiting: dict[int, str] = {}  # texts of subscriptions that found the source full
        self._index = ViewIndex()
        self._next = 0
        self._changes = 0  # since all was planned

    @classmethod
    def of(
        cls, plan: ViewsPlan, options: LiveOptions | None = None, samples: Documents | None = None
    ) -> "LiveViews":
        """The views of a plan, fed as it says; if the options don't allow that any more, all are planned."""
        live = cls(options, samples)
        ids = range(len(plan.texts)) if plan.ids is None else plan.ids.tolist()
        new = live._read(dict(zip(ids, plan.texts, strict=True)))
        for sid, why in live.refused.items():
            raise PenstockError(f"the plan's view {sid} can't be read: {why}")
        live._changes = int(plan.notes.get(_CHANGES) or 0)
        if live._live:
            views = [live._view_of[sid] for sid in ids]
            rows: dict[int, int] = {}
            for row in np.argsort(plan.level, kind="stable").tolist():
                rows.setdefault(views[row], row)
            live._adopt({v: [views[i] for i in plan.inputs(row)] for v, row in rows.items()})
            if not live._running.is_valid and not live._plan_all():
                live._running.adopt({})
                live._feed(new)
        else:
            live._feed(new)
        return live

    def __len__(self) -> int:
        return len(self._views)

    def update(
        self, come: Mapping[int, str], gone: Iterable[int], *, later: bool = False
    ) -> dict[int, str]:
        """Subscriptions come, with their texts, and go. Those that are refused by that, and why.

        A subscription that is there and comes with another text is replaced. With `later`, a plan of all is left to
        `planning`, as long as the source has room.
        """
        before = dict(self.refused)
        left = self._forget(
            {*gone, *(sid for sid, text in come.items() if self._differs(sid, text))}
        )
        new = self._read({sid: come[sid] for sid in sorted(come) if sid not in self._view_of})
        self._changes += len(new)
        together = self._live and len(new) > max(_FEW, len(self) // 10)
        if later and self._has_room_for_all:
            self._feed_for_now([*left, *new], together)
        elif not ((together or self._has_much_changed) and self._plan_all()):
            self._feed([*left, *new])
        self._try_again()
        return {sid: why for sid, why in self.refused.items() if before.get(sid) != why}

    def plan(self) -> ViewsPlan:
        """The configuration as it is now: a row for each subscription, those of one view behind each other."""
        rows = [(number, sid) for number, view in self._views.items() for sid in sorted(view.ids)]
        first: dict[int, int] = {}
        for row, (number, _) in enumerate(rows):
            first.setdefault(number, row)
        offers = [self._running.views[number].fed or Offer((), 0.0, 0.0) for number, _ in rows]
        fed = [sorted(first[used] for used in offer.inputs) for offer in offers]
        once = np.array([first[number] == row for row, (number, _) in enumerate(rows)], np.bool_)
        running = self._running
        return ViewsPlan(
            tuple(self._views[number].text for number, _ in rows),
            _as_inputs(fed),
            np.arange(len(rows)),
            capacities(len(rows), running.most, running.source_most),
            np.array([offer.utilisation for offer in offers]) * once,
            np.array([offer.latency for offer in offers]),
            {_CHANGES: self._changes},
            np.array([sid for _, sid in rows], np.int64),
        )

    @property
    def waits_for_plan(self) -> bool:
        """Whether all should be planned, and that was left for later."""
        return self._has_much_changed and self._has_room_for_all

    def planning(self) -> Planning:
        """What there is to plan now."""
        texts = tuple(view.text for view in self._views.values())
        return Planning(tuple(self._views), texts, self.options, self._samples, self._changes)

    @property
    def _has_much_changed(self) -> bool:
        return self._live and self._changes >= many_changes(len(self))

    @property
    def _has_room_for_all(self) -> bool:
        return self._running.source_most == UNLIMITED

    def take_over(self, planning: Planning, inputs: Mapping[int, Sequence[int]] | None) -> None:
        """Feed views as was planned, those that are still there; the others are fed one by one.

        Without `inputs`, planning has failed: it is to be tried again after as many changes.
        """
        self._changes -= planning.changes
        if inputs is None:
            return
        kept: dict[int, Sequence[int]] = {}
        row = {number: place for place, number in enumerate(inputs)}
        fed = _as_inputs([sorted(row[used] for used in some) for some in inputs.values()])
        numbers = list(inputs)
        for place in np.argsort(levels_of(fed), kind="stable").tolist():
            number = numbers[place]
            if number in self._views and all(used in kept for used in inputs[number]):
                kept[number] = inputs[number]
        self._adopt(kept)
        rest = [number for number in self._views if number not in kept]
        self._feed_for_now(rest, len(rest) > _FEW)

    # --- who is there ----------------------------------------------------------------------------

    def _differs(self, sid: int, text: str) -> bool:
        """Whether a subscription is there, with another pattern than this."""
        if sid not in self._view_of:
            return False
        try:
            return parse_pattern(text) != self._views[self._view_of[sid]].pattern
        except FilterError:
            return True

    def _forget(self, gone: Iterable[int]) -> list[int]:
        """Subscriptions go, and views that were theirs alone. The views that are fed from nowhere by that."""
        left: set[int] = set()
        for sid in gone:
            self.refused.pop(sid, None)
            self._waiting.pop(sid, None)
            number = self._view_of.pop(sid, None)
            if number is not None:
                self._views[number].ids.discard(sid)
                if not self._views[number].ids:
                    left |= self._drop(number)
                    self._changes += 1
        views = self._running.views
        return sorted(left & views.keys(), key=lambda number: (views[number].level, number))

    def _drop(self, number: int) -> set[int]:
        """A view goes. Those that it fed."""
        view = self._views.pop(number)
        del self._numbers[view.pattern]
        if self._live:
            self._index.drop(number)
        return self._running.withdraw(number)

    def _read(self, texts: Mapping[int, str]) -> list[int]:
        """Subscriptions that come get their views. The new ones among these, fed from nowhere yet."""
        new: dict[TreePattern, list[int]] = {}
        for sid, text in texts.items():
            self.refused.pop(sid, None)
            self._waiting.pop(sid, None)
            try:
                new.setdefault(parse_pattern(text), []).append(sid)
            except FilterError as error:
                self.refused[sid] = str(error).split("\n")[0]
        came = [pattern for pattern in new if pattern not in self._numbers]
        measured = measure_views(came, self._samples)
        for pattern, tuples, size in zip(came, measured.tuples, measured.size, strict=True):
            number, self._next = self._next, self._next + 1
            self._views[number] = _View(pattern, pattern_text(pattern), float(tuples), float(size))
            self._numbers[pattern] = number
            self._running.add(number)
            if self._live:
                self._index.add(number, pattern)
        for pattern, ids in new.items():
            self._views[self._numbers[pattern]].ids.update(ids)
            self._view_of.update(dict.fromkeys(ids, self._numbers[pattern]))
        return [self._numbers[pattern] for pattern in came]

    # --- who feeds whom --------------------------------------------------------------------------

    def _feed(self, numbers: Iterable[int]) -> None:
        """Feed views that are fed from nowhere, one by one. Those for which there's no way are refused."""
        ahead, offers = deque(numbers), dict[int, list[Offer]]()
        while ahead:
            number = ahead.popleft()
            if number not in offers:
                offers = self._offers([number, *islice(ahead, _TOGETHER - 1)])
            best = self._running.cheapest(number, offers[number])
            if best is None or (not best.inputs and len(offers[number]) > 1):
                # Others have taken the room that there was: look for what has room now.
                best = self._running.cheapest(number, self._offers([number])[number])
            if best is not None:
                self._running.feed(number, best)
            elif self._changes * _SHARE_WHEN_FULL > len(self) and self._plan_all():
                return
            else:
                ahead.extend(sorted(self._refuse(number)))

    def _feed_for_now(self, numbers: Sequence[int], together: bool) -> None:
        """Feed views that are fed from nowhere: one by one, or all from the source, until all is planned."""
        if not together:
            self._feed(numbers)
            return
        self._changes = max(self._changes, many_changes(len(self)))
        fed = _as_inputs([()] * len(numbers))
        level = np.ones(len(numbers), np.int32)
        nothing = RewritingGraph(fed.start, fed.start[:1], fed.inputs, level)
        for number, (source,) in self._priced(nothing, numbers).items():
            self._running.feed(number, source)

    def _offers(self, numbers: Sequence[int]) -> dict[int, list[Offer]]:
        """What views can be fed from: others that have room or come before them, in several ways, and the source."""
        if not self._live:
            return {number: [Offer((), 0.0, 0.0)] for number in numbers}
        candidates, before = [], set[int]()
        for number in numbers:
            found = self._index.candidates(self._views[number].pattern).tolist()
            free = [n for n in found if n in before or (n != number and self._running.has_room(n))]
            candidates.append(np.array(free, np.int64))
            before.add(number)
        among = distinct(np.concatenate(candidates))
        known = [self._views[n] for n in among.tolist()]
        views = [self._views[number] for number in numbers]
        graph = rewritings_from(
            [view.pattern for view in known],
            [view.pattern for view in views],
            [np.searchsorted(among, some) for some in candidates],
            np.array([view.size for view in known]),
            self._limits,
        )
        return self._priced(graph, [*among.tolist(), *numbers], len(among))

    def _priced(
        self, graph: RewritingGraph, numbers: Sequence[int], begin: int = 0
    ) -> dict[int, list[Offer]]:
        """The rewritings of the views from a place on, each with what it costs, and the source as the last one."""
        views = [self._views[number] for number in numbers]
        found = statistics([view.tuples for view in views], [view.size for view in views])
        priced = costs(graph, found, self.options.model)
        offers: dict[int, list[Offer]] = {}
        for place in range(begin, len(numbers)):
            offers[numbers[place]] = [
                Offer(
                    tuple(numbers[n] for n in graph.inputs[graph.start[r] : graph.start[r + 1]]),
                    float(priced.utilisation[r]),
                    float(priced.latency[r]),
                )
                for r in range(graph.first[place], graph.first[place + 1])
            ]
            source = float(priced.source_utilisation[place]), float(priced.source_latency[place])
            offers[numbers[place]].append(Offer((), *source))
        return offers

    def _refuse(self, number: int) -> set[int]:
        """There is no way to feed a view, so its subscriptions wait. Those that it fed."""
        for sid in self._views[number].ids:
            del self._view_of[sid]
            self._waiting[sid] = self._views[number].text
            self.refused[sid] = (
                "no view that has room can feed it, and the source feeds as many as it may: "
                f"{self._running.source_most:,}"
            )
        return self._drop(number)

    def _try_again(self) -> None:
        """Feed subscriptions that wait, as many as the source has room for."""
        room = self._running.source_most - self._running.from_source
        if self._waiting and room > 0:
            self._feed(self._read(dict(sorted(self._waiting.items())[:room])))

    # --- all at once -----------------------------------------------------------------------------

    def _plan_all(self) -> bool:
        """Plan everything. Whether that was possible; if not, all stays as it is."""
        planning = self.planning()
        self._changes = 0
        if not planning.numbers:
            return True
        try:
            inputs = planning.run()
        except PenstockError as error:
            _log.warning("%d views can't be planned together: %s", len(self), error)
            return False
        self._adopt(inputs)
        return True

    def _adopt(self, inputs: Mapping[int, Sequence[int]]) -> None:
        """Feed all views from these inputs."""
        numbers = list(inputs)
        place = {number: n for n, number in enumerate(numbers)}
        fed = _as_inputs([sorted(place[used] for used in some) for some in inputs.values()])
        width = np.diff(fed.start)
        level = levels_of(fed)
        graph = RewritingGraph(
            offsets((width > 0).astype(np.int64)),
            offsets(width[width > 0]),
            fed.inputs,
            level.astype(np.int32),
        )
        offers = self._priced(graph, numbers)
        order = [numbers[n] for n in np.argsort(level, kind="stable").tolist()]
        self._running.adopt({number: offers[number][0] for number in order})


def _as_inputs(fed: Sequence[Sequence[int]]) -> Inputs:
    width = np.array([len(some) for some in fed], np.int64)
    return Inputs(offsets(width), np.array([n for some in fed for n in some], np.int32))
