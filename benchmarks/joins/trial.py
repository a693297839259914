"""One scheme on one workload: how long an event takes, what leaves the server, and whom it reaches.

    tables filled ──> checked events ──> counted events ──> more events
                      who is affected,   messages, bytes
                      bytes delivered    processor time     processor time

- Time is the processor's own, of one core, so that who else works on the machine matters little. Schemes that send to
  each subscriber apart have to find out who that is, and that is part of their time; the others leave it to filters.
- *Sent*: bytes that leave the server for tuples that come, as the paper counts them: 4 for a number, 8 for a point of a
  description, a message once, however many get it. What tuples that go cost stands beside it.
- *Delivered*: the same, but once for each subscriber that gets it: what the paper calls the last hop, and as near to
  its network traffic as one can be without a network.
- *Agreement*: who is affected by each checked change is the same for all schemes that promise so. Rel-Sel reaches more,
  and so do semijoins of more than two tables (the end of appendix F); they must not reach fewer.
"""

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.baselines.joins.schemes import SchemeProcessor
from benchmarks.baselines.joins.traffic import content_bytes, description_bytes
from benchmarks.joins.published import TITLES
from benchmarks.joins.workload import Workload
from penstock.base.arrays import Int64s
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import ADDED, BASE
from penstock.joins.notifications import Notifications

CHECKED = 256  # events, of which
_ANSWERED = 32  # are compared subscription by subscription
AT_ONCE = 1_000  # events in a batch
POINT = 8  # bytes
BINARY_EXACT = tuple(name for name in TITLES if name != "rel-sel")
RESULTS = ("enum-j", "ref-j", "ref-j+")

COUNTED = 1_000  # events whose messages are counted, the same for all schemes: few of them bring most of the bytes
SLOW = ("enum-j", "enum-sj", "ref-sj-sub")  # get no more events than are counted
_MOST_AT_ONCE = {"enum-j": 20, "enum-sj": 100}  # or those whom they send to don't fit into memory
_CHECKED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Trial:
    """What one scheme did. `at` is what is varied; all but `events` and `affected` is per event."""

    scheme: str
    at: float
    subscriptions: int
    events: int
    us: float
    sent: float  # bytes, for tuples that come
    sent_going: float  # bytes, for tuples that go
    messages: float
    tuples: float  # that come, with their payload
    description: float  # bytes of the skyline of a message that has one
    delivered: float  # bytes
    affected: float  # subscriptions, per change
    set_up_seconds: float
    disagreements: tuple[str, ...] = ()
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "events_per_second": self.rate}

    @property
    def title(self) -> str:
        return self.label or TITLES[self.scheme]

    @property
    def rate(self) -> float:
        """Events per second and core."""
        return 1e6 / self.us if self.us else 0.0

    def with_payload(self, before: int, after: int) -> float:
        """What would be sent if tuples had another payload: it is that many bytes more for each of them."""
        return self.sent + self.tuples * (after - before)


@dataclass(slots=True)
class Referee:
    """Who is affected by which change, as the first scheme that promises to know has it."""

    exact: Collection[str] = BINARY_EXACT
    _truth: tuple[str, Int64s] | None = None

    def hear(self, who: str, scheme: str, answer: Int64s) -> list[str]:
        """What is wrong with an answer; those that aren't exact come after one that is."""
        if self._truth is None:
            if scheme in self.exact:
                self._truth = who, answer
            return []
        other, truth = self._truth
        lacking = np.setdiff1d(truth, answer, assume_unique=True)
        surplus = (
            np.setdiff1d(answer, truth, assume_unique=True) if scheme in self.exact else answer[:0]
        )
        found = []
        for pairs, word in ((lacking, "doesn't reach"), (surplus, "reaches")):
            if len(pairs):
                change, sid = divmod(int(pairs[0]), _SIDS)
                found.append(
                    f"{who} {word} {len(pairs):,} that {other} {'does' if word[0] == 'd' else 'does not'}, "
                    f"among them subscription {sid} at change {change}"
                )
        return found


_SIDS = 1 << 32


def affected(notified: Notifications, first_change: int) -> Int64s:
    """Who is reached by which change, each pair as one number."""
    pairs = [np.empty(0, np.int64)]
    for part, read in zip(notified.parts, notified.readers(), strict=True):
        change = part.messages.change[read.which()] + first_change
        pairs.append(change * _SIDS + notified.ids[read.numbers])
    found: Int64s = np.sort(np.concatenate(pairs))
    return found[np.diff(found, prepend=-1) > 0]  # np.unique hashes such numbers all to the same


@dataclass(slots=True)
class Tally:
    """What has been sent so far."""

    events: int = 0
    sent: float = 0
    sent_going: float = 0
    messages: int = 0
    tuples: float = 0
    described: int = 0
    points: int = 0
    delivered: float = 0
    answered: int = 0  # changes
    answer: list[Int64s] = field(default_factory=list)

    def count(self, notified: Notifications, is_unicast: bool, with_readers: bool) -> None:
        """Add what some changes brought about."""
        for n, part in enumerate(notified.parts):
            messages, come = part.messages, part.messages.kind == ADDED
            sizes = content_bytes(part)
            copies = np.ones(len(messages), np.int64)
            if with_readers or is_unicast:
                copies = notified.readers()[n].counts()
            if with_readers:
                self.delivered += float((sizes * copies)[come].sum())
            if not is_unicast:
                copies = np.ones(len(messages), np.int64)
                sizes = sizes + description_bytes(messages)
            self.messages += int(copies.sum())
            self.sent += float((sizes * copies)[come].sum())
            self.sent_going += float((sizes * copies)[~come].sum())
            each = messages.tuples.shape[1] if messages.tuples.ndim > 1 else 1
            self.tuples += float(copies[come].sum()) * each
            skylines = come & (messages.form == BASE)
            self.described += int(skylines.sum())
            self.points += int(messages.points()[skylines].sum())


def try_scheme(
    workload: Workload,
    scheme: str,
    events: int,
    at: float,
    referee: Referee,
    decomposition: Decomposition | None = None,
    label: str = "",
    checked: int | None = None,
) -> Trial:
    """Fill the tables, check some events, and time some more.

    All of the `checked` ones are compared; if nobody says how many, some of some.
    """
    answered = _ANSWERED if checked is None else checked
    if checked is None:
        checked = checked_events(len(workload.joins))
    began = time.process_time()
    processor = SchemeProcessor(workload.catalog, workload.joins, scheme, decomposition)
    set_up = time.process_time() - began
    processor.restore(workload.content)
    at_once = _MOST_AT_ONCE.get(scheme, AT_ONCE)
    seen = _checked(processor, workload, checked, answered)
    answer = np.concatenate([*seen.answer, np.empty(0, np.int64)])
    wrong = referee.hear(label or TITLES[scheme], scheme, answer)
    counted = min(events, counted_events(len(workload.joins)))
    seconds, tally = _timed(processor, workload, checked, checked + counted, at_once)
    timed = counted
    if scheme not in SLOW and events > counted:
        timed = events
        seconds += _timed(processor, workload, checked + counted, checked + events, at_once, False)[
            0
        ]
    count = max(1, tally.events)
    return Trial(
        scheme,
        at,
        len(workload.joins),
        timed,
        seconds / max(1, timed) * 1e6,
        tally.sent / count,
        tally.sent_going / count,
        tally.messages / count,
        tally.tuples / count,
        POINT * tally.points / max(1, tally.described),
        seen.delivered / max(1, seen.events),
        len(answer) / max(1, seen.answered),
        set_up,
        tuple(f"{workload.name}, {at:g}: {text}" for text in wrong),
        label,
    )


def counted_events(subscriptions: int) -> int:
    """Of how many events the messages are counted.

    >>> [counted_events(count) for count in (1_000, 100_000, 1_000_000)]
    [1000, 1000, 100]
    """
    return max(4, min(COUNTED, COUNTED * 100_000 // max(1, subscriptions)))


def checked_events(subscriptions: int) -> int:
    """How many events are checked, unless somebody says otherwise: the fewer the more subscriptions they may reach.

    >>> [checked_events(count) for count in (1_000, 100_000, 1_000_000)]
    [256, 256, 25]
    """
    return max(4, min(CHECKED, CHECKED * 100_000 // max(1, subscriptions)))


def _checked(processor: SchemeProcessor, workload: Workload, events: int, answered: int) -> Tally:
    """The first events, with all whom they reach. Kernels are compiled here."""
    tally = Tally()
    for batch in workload.batches(0, events, _CHECKED_AT_ONCE):
        notified = processor.process([batch])
        if tally.events < answered:
            tally.answer.append(affected(notified, 2 * tally.events))
            tally.answered += len(batch)
        tally.count(notified, processor.is_unicast, with_readers=True)
        tally.events += len(batch) // 2
    return tally


def _timed(
    processor: SchemeProcessor,
    workload: Workload,
    first: int,
    past: int,
    at_once: int,
    with_bytes: bool = True,
) -> tuple[float, Tally]:
    """Seconds of the processor, and what was sent if that is counted."""
    tally, seconds = Tally(), 0.0
    for batch in workload.batches(first, past, at_once):
        began = time.process_time()
        notified = processor.process([batch])
        if processor.is_unicast:
            notified.readers()
        seconds += time.process_time() - began
        if with_bytes:
            tally.count(notified, processor.is_unicast, with_readers=False)
        tally.events += len(batch) // 2
    return seconds, tally
