"""A scenario from a seed: brokers and their places, links and their faults, and what clients do and when.

Filters are of a few kinds over a small universe of events, each with a predicate in Python beside its text: the oracle
that judges deliveries is not the matcher that made them.

In some worlds attributes are payloads (CN*), filters test them or not, repositories and directories are tiny, and some
of the brokers are plain ones.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.language.schema import Schema
from penstock.network.broker_settings import Bounds, BrokerSettings, Place, Routing, Times
from penstock.network.payload.node import PayloadLimits

SCHEMA = Schema.of({"a": "int", "b": "int", "s": "string"})
Event = Mapping[str, Any]
Predicate = Callable[[Event], bool]
TEXTS = ("x", "xy", "y", "zx")


@dataclass(frozen=True)
class Filter:
    """A filter's text, and what it means."""

    text: str
    matches: Predicate


def draw_event(dice: random.Random) -> dict[str, Any]:
    """An event of the universe."""
    return {
        "a": None if dice.random() < 0.05 else dice.randrange(10),
        "b": dice.randrange(10),
        "s": None if dice.random() < 0.05 else dice.choice(TEXTS),
    }


def universe() -> list[dict[str, Any]]:
    """Every event that `draw_event` can draw."""
    return [
        {"a": a, "b": b, "s": s}
        for a in (None, *range(10))
        for b in range(10)
        for s in (None, *TEXTS)
    ]


def draw_filter(dice: random.Random, wide: bool = False) -> Filter:
    """A conjunction of one or two ranges, mostly; now and then what no range can say."""
    parts = [_range(dice, dice.choice("ab"), wide)]
    chance = dice.random()
    if chance < 0.25:
        parts.append(_range(dice, "b", wide))
    elif chance < 0.45:
        text = dice.choice(TEXTS)
        parts.append(Filter(f"s = '{text}'", lambda e: e["s"] == text))
    elif chance < 0.50:
        parts.append(Filter("s LIKE '%y'", lambda e: e["s"] is not None and e["s"].endswith("y")))
    elif chance < 0.55:
        parts.append(Filter("a < b", lambda e: e["a"] is not None and e["a"] < e["b"]))
    elif chance < 0.60:
        parts = [Filter("a IS NULL", lambda e: e["a"] is None)]
    elif chance < 0.64:
        parts = [Filter("TRUE", lambda e: True)]
    texts, predicates = [p.text for p in parts], [p.matches for p in parts]
    return Filter(" AND ".join(texts), lambda e: all(p(e) for p in predicates))


def _range(dice: random.Random, name: str, wide: bool) -> Filter:
    low = dice.randrange(10)
    high = min(9, low + dice.choice((5, 7, 9) if wide else (0, 1, 2, 3, 6)))
    return Filter(
        f"{name} BETWEEN {low} AND {high}",
        lambda e: e[name] is not None and low <= e[name] <= high,
    )


Kind = Literal[
    "subscribe",
    "unsubscribe",
    "advertise",
    "withdraw",
    "publish",
    "crash",
    "restart",
    "cut",
    "heal",
]


@dataclass(frozen=True)
class Action:
    """What happens at a time. `broker` and `other` by name; `number` of a subscription or advertisement."""

    time: float
    kind: Kind
    broker: str
    number: int = 0
    filter: Filter | None = None
    events: tuple[dict[str, Any], ...] = ()
    other: str = ""


@dataclass(frozen=True)
class Scenario:
    """See the module. `clocks` are rates and offsets; `starts` is when each broker comes for the first time."""

    seed: int
    settings: tuple[BrokerSettings, ...]
    clocks: Mapping[str, tuple[float, float]]
    starts: Mapping[str, float]
    loss: float
    doubling: float
    delay: float
    actions: tuple[Action, ...]

    @property
    def end(self) -> float:
        return self.actions[-1].time if self.actions else 0.0


_TIMES = Times(repeat=0.3, silence=3.0, beat=1.0, forget=1e6, retry=1.0, longest_retry=3.0)


def draw_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    dice = random.Random(seed)
    count = dice.choice((2, 3, 3, 4, 4, 5))
    names = [f"b{n}" for n in range(count)]
    advertisements = dice.random() < 0.7
    routing: Routing = dice.choice(("flooding", "covering", "covering", "merging", "merging"))
    threshold = dice.choice((0.0, 0.0, 0.3)) if routing == "merging" else 0.0
    frames = Bounds(frame_bytes=dice.choice((1, 1 << 20)), window=dice.choice((1, 4, 512)))
    settings = tuple(
        BrokerSettings(
            Place(n, name),
            SCHEMA,
            parents=_parents(dice, names, n),
            routing=routing,
            threshold=threshold,
            advertisements=advertisements,
            times=_TIMES,
            bounds=frames,
        )
        for n, name in enumerate(names)
    )
    is_bad = dice.random() < 0.8
    settings = _with_payloads(random.Random(~seed), settings)
    return Scenario(
        seed,
        settings,
        {name: (dice.uniform(0.9, 1.1), dice.uniform(0, 1000)) for name in names},
        {name: dice.uniform(0, 10) if dice.random() < 0.15 else 0.0 for name in names},
        loss=dice.choice((0.0, 0.05, 0.2)) if is_bad else 0.0,
        doubling=dice.choice((0.0, 0.1)) if is_bad else 0.0,
        delay=dice.choice((0.01, 0.1, 0.4)),
        actions=tuple(_said_again(settings, _actions(dice, names, advertisements, is_bad))),
    )


_PAYLOADS = ((("s",),), (("s",),), (("b",),), (("a", "s"),), (("s",), ("b",)))


def _with_payloads(
    dice: random.Random, settings: tuple[BrokerSettings, ...]
) -> tuple[BrokerSettings, ...]:
    """In two worlds of five, brokers with payloads, and plain ones among them."""
    if dice.random() < 0.6:
        return settings
    groups = dice.choice(_PAYLOADS)
    plain = dice.choice((0.0, 0.2, 0.5))
    return tuple(
        one
        if dice.random() < plain
        else replace(
            one,
            payloads=groups if dice.random() < 0.8 else dice.choice(_PAYLOADS),
            payload_limits=PayloadLimits(
                directory_bytes=dice.choice((48, 1 << 19, 1 << 19)),
                repository_bytes=dice.choice((0, 250, 600, 1 << 20)),
                patience=dice.choice((0.3, 1.0)),
            ),
        )
        for one in settings
    )


def _said_again(settings: tuple[BrokerSettings, ...], actions: list[Action]) -> list[Action]:
    """Where there are payloads, the same is published again a little later: contents come to links that had them."""
    if not any(one.payloads for one in settings):
        return actions
    again = [
        replace(one, time=one.time + later)
        for one in actions
        if one.kind == "publish"
        for later in (0.4, 1.1)
    ]
    return sorted([*actions, *again], key=lambda one: one.time)


def _parents(dice: random.Random, names: list[str], n: int) -> tuple[Place, ...]:
    if not n:
        return ()
    chosen = dice.sample(range(n), min(n, dice.choice((1, 2, 2, 3))))
    return tuple(Place(m, names[m]) for m in chosen)


def _actions(
    dice: random.Random, names: list[str], advertisements: bool, is_bad: bool
) -> list[Action]:
    found: list[Action] = []
    time = 0.0
    number = 0
    live: dict[int, str] = {}  # subscriptions
    said: dict[str, list[tuple[int, Filter]]] = {name: [] for name in names}
    down: set[str] = set()
    cuts: list[tuple[str, str]] = []
    for _ in range(dice.choice((15, 25, 35))):
        time += dice.expovariate(2.0)
        name = dice.choice(names)
        chance = dice.random()
        if is_bad and chance < 0.12:
            found += _fault(dice, time, names, down, cuts)
        elif name in down:
            continue
        elif chance < 0.35:
            number += 1
            live[number] = name
            found.append(Action(time, "subscribe", name, number, draw_filter(dice)))
        elif chance < 0.42 and (mine := [n for n, at in live.items() if at == name]):
            gone = dice.choice(mine)
            del live[gone]
            found.append(Action(time, "unsubscribe", name, gone))
        elif advertisements and (chance < 0.55 or not said[name]):
            number += 1
            said[name].append((number, draw_filter(dice, wide=True)))
            found.append(Action(time, "advertise", name, *said[name][-1]))
        elif chance < 0.58 and said[name]:
            gone, _ = said[name].pop(dice.randrange(len(said[name])))
            found.append(Action(time, "withdraw", name, gone))
        else:
            events = _announced(dice, [f for _, f in said[name]], advertisements)
            if events:
                found.append(Action(time, "publish", name, events=events))
    return found


def _announced(
    dice: random.Random, filters: list[Filter], advertisements: bool
) -> tuple[dict[str, Any], ...]:
    drawn = [draw_event(dice) for _ in range(dice.choice((2, 4, 8)))]
    if advertisements:
        drawn = [e for e in drawn if any(f.matches(e) for f in filters)]
    return tuple(drawn)


def _fault(
    dice: random.Random,
    time: float,
    names: list[str],
    down: set[str],
    cuts: list[tuple[str, str]],
) -> list[Action]:
    chance = dice.random()
    if down and chance < 0.4:
        name = dice.choice(sorted(down))
        down.discard(name)
        return [Action(time, "restart", name)]
    if cuts and chance < 0.6:
        a, b = cuts.pop(dice.randrange(len(cuts)))
        return [Action(time, "heal", a, other=b)]
    if chance < 0.8:
        up = [name for name in names if name not in down]
        if not up:
            return []
        name = dice.choice(up)
        down.add(name)
        return [Action(time, "crash", name)]
    a, b = dice.sample(names, 2)
    cuts.append((a, b))
    return [Action(time, "cut", a, other=b)]
