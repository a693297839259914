"""Documents of XMark's auction site, of 10 to 40 KB, that almost every view matches (section 5.5).

    site
     |- regions/europe -- item 0      full: all that is optional, the likeliest values, a list for a description
     |                    item 1      full as well, with a text for a description
     |                    item 2 ...  what comes, until the document is as large as it should be
     |- people         -- person 0, person 1, ...
     ...

So whatever a view asks for that can be had at one place, it finds at the first two of every kind; unlikelier values at
later ones. References point at things that are there.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from benchmarks.views.drawing import SEED, chances
from benchmarks.views.schema import (
    ROOT,
    THINGS,
    WORDS,
    Child,
    Element,
    Kind,
    element,
    values_of,
)

DOCUMENTS = 200
SIZES = (11_000, 39_000)
"""Bytes that a document is drawn to have, give or take a thing."""

_FULL = 2  # of every kind and place
_LEAST = {"item": 2, "category": 4, "person": 4, "open_auction": 4, "closed_auction": 2, "edge": 3}
_INSIDE = 2  # how deep lists and markup go


def draw_documents(count: int = DOCUMENTS, seed: int = SEED) -> list[str]:
    """Documents, always the same ones.

    >>> (only,) = draw_documents(1)
    >>> only[:15], 10_000 < len(only) < 40_000
    ('<site><regions>', True)
    """
    chance = chances(seed, 1)
    low, high = SIZES
    return [_Writer(chance).document(low + int(next(chance) * (high - low))) for _ in range(count)]


class _Writer:
    """Writes one document."""

    def __init__(self, chance: Iterator[float]) -> None:
        self.chance = chance
        self.written: Counter[str] = Counter()  # things of each kind: their numbers

    def document(self, size: int) -> str:
        """Things by the parents that they stand in, these then filled up to the size."""
        frames = {frame: list(self._least(frame, thing)) for frame, thing in _frames(ROOT)}
        room = size - sum(map(len, map("".join, frames.values())))
        places = list(frames)
        while room > 0:
            frame = places[int(next(self.chance) * len(places))]
            thing = element(frame).children[0].name
            frames[frame].append(self._element(thing, len(frames[frame])))
            room -= len(frames[frame][-1])
        return _framed(ROOT, frames)

    def _least(self, frame: str, thing: str) -> Iterator[str]:
        return (self._element(thing, place) for place in range(_LEAST[thing]))

    def _element(self, name: str, place: int, inside: int = 0) -> str:
        """An element that is the `place`-th of its kind below its parent, or below the thing it belongs to."""
        what = element(name)
        attributes = "".join(
            f" {label[1:]}={quoteattr(self._attribute(label, name, place))}"
            for label in what.attributes
        )
        return f"<{name}{attributes}>{self._content(what, place, inside)}</{name}>"

    def _attribute(self, label: str, parent: str, place: int) -> str:
        if label == "@id":
            self.written[parent] += 1
            return f"{parent}{self.written[parent] - 1}"
        return self._value(values_of(label, parent), place)

    def _content(self, what: Element, place: int, inside: int) -> str:
        match what.kind:
            case Kind.EMPTY:
                return ""
            case Kind.WORDS:
                return escape(self._value(values_of(what.name, ""), place))
            case Kind.ONE:
                chosen = what.children[(place + 1) % len(what.children)].name
                return self._element(chosen, place, inside)
            case Kind.ANY:
                few = what.children[: 1 + (inside < _INSIDE and self._comes(place))]
                return "".join(self._element(child.name, place, inside + 1) for child in few)
            case Kind.MIXED:
                return self._mixed(what.children, place, inside)
            case _:
                return "".join(
                    self._element(child.name, place if not number else _FULL + number, inside)
                    for child in what.children
                    for number in range(self._times(child, place))
                )

    def _times(self, child: Child, place: int) -> int:
        if child.least == child.most:
            return child.least
        if child.most is not None:
            return int(self._comes(place))
        return _FULL - place if place < _FULL else child.least + self._comes(place)

    def _comes(self, place: int) -> bool:
        """Whether something optional is there."""
        return place < _FULL or next(self.chance) < 0.5

    def _mixed(self, children: Sequence[Child], place: int, inside: int) -> str:
        text = [self._words()]
        for child in children:
            if inside < _INSIDE - place and self._comes(place):
                text += [self._element(child.name, place, inside + 1), self._words()]
        return " ".join(text)

    def _words(self) -> str:
        return WORDS[int(next(self.chance) * len(WORDS))]

    def _value(self, values: Sequence[str], place: int) -> str:
        """The likeliest one in the full things, then the next ones in turn, now and then any."""
        if place < _FULL:
            return values[0]
        any_one = next(self.chance) < 0.3
        return values[
            int(next(self.chance) * len(values)) if any_one else (place - 1) % len(values)
        ]


def _frames(name: str) -> Iterator[tuple[str, str]]:
    """The elements that hold things, and which."""
    for child in element(name).children:
        if child.name in THINGS:
            yield name, child.name
        else:
            yield from _frames(child.name)


def _framed(name: str, frames: dict[str, list[str]]) -> str:
    if name in frames:
        inner = frames[name]
    else:
        inner = [_framed(child.name, frames) for child in element(name).children]
    return f"<{name}>{''.join(inner)}</{name}>"
