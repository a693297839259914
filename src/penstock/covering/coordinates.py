"""Regions as numbers: attributes are numbered, and keys become 64-bit integers in the same order.

A key that is an integer is its own number. Of keys that are bytes (strings and wide decimals), only the order among the
constants matters: each constant gets a *label* (`base.labels`), which later constants don't change. An interval from a
up to b is then the labels from a's to the one before b's. If no label is left between two constants, all labels of that
attribute are spread anew. A caller that keeps numbers must then replace them, as `moves` says.

NULL takes one number, so one boundary of 64-bit integers is lost: that between the smallest and the next. A region with
that boundary, or with a key beyond 64 bits, has no numbers. It *stands alone*: it covers no other region and no other
covers it, which is sound.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.labels import Key, Labels, NoRoomError
from penstock.covering.boxes import HIGHEST, LOWEST, NULL, Boxes, Flat, Test
from penstock.covering.regions import Box, Region
from penstock.language.calls import Path
from penstock.language.values import Values


class Moved(NamedTuple):
    """The labels of an attribute were spread anew."""

    attribute: int
    old: Int64s
    new: Int64s


class Coordinates:
    """The numbers of the attributes and of their keys."""

    def __init__(self) -> None:
        self._attributes: dict[Path, int] = {}
        self._labels: dict[int, Labels] = {}
        self._integers: set[int] = set()
        self._moved: list[Moved] = []

    def flatten(self, regions: Iterable[Region]) -> Flat:
        """Regions as numbers. A region that stands alone has no boxes in the result.

        Labels may have moved, even if this fails: see `moves`.
        """
        regions = list(regions)
        if len(regions) > 1:
            self._label_all(regions)
        while True:
            try:
                return self._flatten(regions)
            except _FullError as full:
                self._spread(full.attribute)

    def moves(self) -> list[Moved]:
        """Which labels have moved since the last call, in order: apply it to all earlier numbers."""
        moved, self._moved = self._moved, []
        return moved

    def keep(self, in_use: Callable[[int], Int64s]) -> None:
        """Forget the constants whose numbers aren't in use any more; `in_use` has those of an attribute that are."""
        for attribute, labels in self._labels.items():
            labels.keep(set(in_use(attribute).tolist()))

    def region(self, boxes: Boxes, number: int) -> Region:
        """The region from which `flatten` made boxes."""
        first, past = boxes.region_start[number : number + 2].tolist()
        return Region(tuple(self.box(boxes, b) for b in range(first, past)))

    def box(self, boxes: Boxes, number: int) -> Box:
        tests = []
        first, past = boxes.box_start[number : number + 2].tolist()
        for t in range(first, past):
            several = int(boxes.several[t])
            if several < 0:
                ranges = [(int(boxes.low[t]), int(boxes.high[t]))]
            else:
                ends = slice(*boxes.set_start[several : several + 2].tolist())
                lows, highs = boxes.set_low[ends].tolist(), boxes.set_high[ends].tolist()
                ranges = list(zip(lows, highs, strict=True))
            tests.append((int(boxes.attribute[t]), ranges))
        return self.box_of(tests)

    def box_of(self, tests: Iterable[Test]) -> Box:
        """A box from its tests."""
        paths = self.paths()
        return tuple(
            sorted(((paths[a], self._values(a, ranges)) for a, ranges in tests), key=itemgetter(0))
        )

    def paths(self) -> list[Path]:
        """The attributes, in the order of their numbers."""
        return list(self._attributes)

    def key(self, attribute: int, number: int) -> Key:
        """The constant that has a number."""
        labels = self._labels.get(attribute)
        return number if labels is None else labels.key_of(number)

    def _values(self, attribute: int, ranges: Sequence[tuple[int, int]]) -> Values:
        """The values from which `flatten` made these ranges."""
        intervals = tuple(
            (
                None if low <= LOWEST else self.key(attribute, low),
                None if high == HIGHEST else self.key(attribute, high + 1),
            )
            for low, high in ranges
            if high != NULL
        )
        return Values(intervals, null=ranges[0][0] == NULL)

    def _flatten(self, regions: list[Region]) -> Flat:
        flat = Flat()
        for region in regions:
            try:
                boxes = [self._tests(box) for box in region.boxes]
            except _NoNumberError:
                boxes = []
            flat.boxes.append(len(boxes))
            for tests in boxes:
                _put(tests, flat)
        return flat

    def _tests(self, box: Box) -> list[Test]:
        tests: list[Test] = []
        for path, values in box:
            attribute = self._attributes.get(path)
            if attribute is None:
                attribute = self._attributes[path] = len(self._attributes)
            if attribute in self._integers and len(values.intervals) == 1 and not values.null:
                first, past = values.intervals[0]
                # Nearly all tests are such. `_ranges` does the same in three times the time.
                if type(first) is type(past) is int and LOWEST < first < past <= HIGHEST:
                    tests.append((attribute, ((first, past - 1),)))
                    continue
            tests.append((attribute, self._ranges(attribute, path, values)))
        tests.sort(key=itemgetter(0))
        return tests

    def _ranges(self, attribute: int, path: Path, values: Values) -> list[tuple[int, int]]:
        """Ascending, disjoint and with numbers between them."""
        ranges = []
        for first, past in values.intervals:
            low = LOWEST if first is None else self._number(attribute, path, first)
            high = HIGHEST if past is None else self._number(attribute, path, past) - 1
            if low > HIGHEST or high < LOWEST or (low == LOWEST and first is not None):
                raise _NoNumberError
            ranges.append((max(low, LOWEST), min(high, HIGHEST)))
        if values.null:
            if ranges and ranges[0][0] == LOWEST:
                ranges[0] = NULL, ranges[0][1]
            else:
                ranges.insert(0, (NULL, NULL))
        return ranges

    def _number(self, attribute: int, path: Path, key: Key) -> int:
        """The label of a key if it is bytes; else the key itself, which may be beyond 64 bits."""
        if isinstance(key, bytes):
            return self._label(attribute, path, key)
        if attribute in self._labels:
            raise _mixed(path, key, "strings")
        self._integers.add(attribute)
        return key

    def _label(self, attribute: int, path: Path, key: bytes) -> int:
        labels = self._labels.get(attribute)
        if labels is None:
            if attribute in self._integers:
                raise _mixed(path, key, "integers")
            labels = self._labels[attribute] = Labels()
        try:
            return labels.add(key)
        except NoRoomError:
            raise _FullError(attribute) from None

    def _label_all(self, regions: list[Region]) -> None:
        """Label many constants at once: one by one, labels would have to be spread again and again."""
        keys: dict[Path, set[bytes]] = {}
        for region in regions:
            for box in region.boxes:
                for path, values in box:
                    found = [k for i in values.intervals for k in i if isinstance(k, bytes)]
                    if found:
                        keys.setdefault(path, set()).update(found)
        for path, constants in keys.items():
            attribute = self._attributes.setdefault(path, len(self._attributes))
            self._label(attribute, path, min(constants))
            self._spread(attribute, constants)

    def _spread(self, attribute: int, more: Iterable[bytes] = ()) -> None:
        old, new = self._labels[attribute].relabel(more)
        self._moved.append(Moved(attribute, np.array(old, np.int64), np.array(new, np.int64)))


class _NoNumberError(Exception):
    """A boundary has no number."""


class _FullError(Exception):
    """No label is left between two constants of an attribute."""

    def __init__(self, attribute: int) -> None:
        self.attribute = attribute


def _mixed(path: Path, key: Key, others: str) -> TypeError:
    name = ".".join(path)
    return TypeError(
        f"attribute {name} is compared with the key {key!r}, but before it was with {others}: "
        "make all regions of one frontier from one schema"
    )


def _put(tests: list[Test], flat: Flat) -> None:
    """Add a box."""
    mask = 0
    for attribute, ranges in tests:
        mask |= 1 << (attribute & 63)
        flat.attribute.append(attribute)
        flat.low.append(ranges[0][0])
        flat.high.append(ranges[-1][1])
        if len(ranges) == 1:
            flat.several.append(-1)
        else:
            flat.several.append(len(flat.ranges))
            flat.ranges.append(len(ranges))
            flat.set_low += [low for low, _ in ranges]
            flat.set_high += [high for _, high in ranges]
    flat.tests.append(len(tests))
    flat.mask.append(mask)
