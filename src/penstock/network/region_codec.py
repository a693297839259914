"""Regions on the wire: exact, hidden attributes included. What comes in is checked before it is used.

A path is in a message once, and boxes refer to it by its position. Values are keys (`language.literals`), which mean
the same to all brokers of one schema. A region that comes from outside must be one that `covering.reading` or a merger
could have made: attributes of the schema, keys of their type, intervals in order, tests that can be evaluated. If it
isn't, there is a `WireError`: kernels and plans never see such a region.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import itemgetter

from penstock.base.errors import PenstockError
from penstock.base.labels import Key
from penstock.covering.regions import MOST_BOXES, Box, Region
from penstock.language.calls import CALL, Path
from penstock.language.computed import find_attribute
from penstock.language.hidden_attributes import (
    FAILS,
    HIDDEN,
    HOLDS,
    OUTCOMES,
    MemberAsked,
    OrderAsked,
    TextAsked,
    read_hidden,
)
from penstock.language.literals import INT64_MAX, INT64_MIN
from penstock.language.patterns import check_text_test
from penstock.language.schema import Schema
from penstock.language.types import Array, Kind, Scalar, Type
from penstock.language.values import EVERYTHING, NOT_NULL, Values
from penstock.matching.box_plan import is_hidden
from penstock.network.wire import WireBox, WireEntry, WireError, WirePath

_WIDE_BYTES = 16
_MOST_STEPS = 64
_MOST_KNOWN = 1_000  # values of an attribute that aren't checked again: short ones,
_KNOWN_ENDS, _KNOWN_BYTES = 4, 64  # with at most so many ends, each of at most so many bytes
_MOST_COMPUTED = 10_000  # characters of an expression
_TRUTHS = {HOLDS, FAILS, NOT_NULL}
_ORDERS = {*OUTCOMES.values(), OUTCOMES["="].complement().intersection(NOT_NULL), NOT_NULL}
_INTEGER, _TEXT, _WIDE, _NONE, _ANSWER = range(5)  # the kinds of keys of an attribute


def encode_regions(
    entries: Iterable[tuple[int, Region]],
) -> tuple[tuple[WirePath, ...], tuple[WireEntry, ...]]:
    """Regions with their numbers, as a message has them: the paths in them, and the entries."""
    places: dict[Path, int] = {}
    found = tuple(
        (number, tuple(_encoded(box, places) for box in region.boxes)) for number, region in entries
    )
    return tuple(places), found


def _encoded(box: Box, places: dict[Path, int]) -> WireBox:
    return tuple(
        (
            places.setdefault(path, len(places)),
            tuple(chain.from_iterable(values.intervals)),
            values.null,
        )
        for path, values in box
    )


class RegionReader:
    """Reads regions for a schema. It remembers which attributes it has checked."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._kinds: dict[Path, _ReadValues] = {}

    def read(
        self, paths: Sequence[WirePath], entries: Sequence[WireEntry]
    ) -> list[tuple[int, Region]]:
        """Read what `encode_regions` made. WireError if it can't have made this."""
        kinds = [self._kind(path) for path in paths]
        found: list[tuple[int, Region]] = []
        for number, boxes in entries:
            if len(boxes) > MOST_BOXES:
                raise WireError(f"a region of {len(boxes):,} boxes: at most {MOST_BOXES:,}")
            read = tuple(self._box(box, paths, kinds) for box in boxes)
            found.append((number, Region(read)))
        return found

    def _box(
        self,
        box: WireBox,
        paths: Sequence[WirePath],
        kinds: Sequence["_ReadValues"],
    ) -> Box:
        found: list[tuple[Path, Values]] = []
        for place, ends, null in box:
            if not 0 <= place < len(paths):
                raise WireError(f"no path {place} in the message")
            kind = kinds[place]
            values = kind.known.get((ends, null)) or kind.read(ends, null)
            found.append((paths[place], values))
        if any(a[0] >= b[0] for a, b in pairwise(found)):
            found.sort(key=itemgetter(0))
            if any(a[0] == b[0] for a, b in pairwise(found)):
                raise WireError("an attribute that a box asks for twice")
        return tuple(found)

    def _kind(self, path: Path) -> "_ReadValues":
        """The reader of an attribute's values. WireError if there is no such attribute."""
        if path not in self._kinds:
            if not 0 < len(path) <= _MOST_STEPS:
                raise WireError("no path")
            try:
                is_plain = not path[0].startswith(HIDDEN)
                kind = _ReadValues(*self._checked(path), _MOST_KNOWN if is_plain else 0)
            except WireError:
                raise
            except (PenstockError, ValueError, AssertionError, RecursionError) as error:
                raise WireError(f"attribute {'.'.join(path)[:200]!r}: {error}") from None
            if len(self._kinds) > 100_000:
                self._kinds.clear()
            self._kinds[path] = kind
        return self._kinds[path]

    def _checked(self, path: Path) -> tuple[int, frozenset[Values] | None]:
        if not is_hidden(path):
            if path[0].startswith("\0") and (len(path) != 2 or len(path[1]) > _MOST_COMPUTED):
                raise WireError("no expression")
            return _key_kind(self._type(path)), None
        if path[0] == CALL:
            return _ANSWER, None  # counts as true on the way, whatever it is
        asked = read_hidden(path)
        match asked:
            case TextAsked(of, test):
                if self._type(of) != Scalar(Kind.STRING):
                    raise WireError(f"{'.'.join(of)!r} is no text")
                check_text_test(test)
            case MemberAsked(of, lo, hi, over):
                type_ = self._type(of)
                if not isinstance(type_, Array) or over not in (-1, 0, 1):
                    raise WireError(f"{'.'.join(of)!r} is no array")
                _check_keys((lo, hi), _key_kind(type_.element))
            case OrderAsked(left, right):
                self._type(left)
                self._type(right)
                return _INTEGER, frozenset(_ORDERS)
        return _INTEGER, frozenset(_TRUTHS)

    def _type(self, path: Path) -> Type:
        found = None if is_hidden(path) else find_attribute(self._schema, path)
        if found is None:
            raise WireError(f"the schema has no attribute {'.'.join(path)[:200]!r}")
        return found.type


@dataclass(frozen=True, slots=True)
class _ReadValues:
    """Reads the values of an attribute, by the kind of its keys. If `allowed` isn't None, it has only these values.

    Most regions have few values, which come again and again: so values that were checked are `known`. Their number is
    bounded, whatever a neighbour sends: some short values for each attribute of the schema.
    """

    kind: int
    allowed: frozenset[Values] | None
    most_known: int
    known: dict[tuple[tuple[Key | None, ...], bool], Values] = field(default_factory=dict)

    def read(self, ends: tuple[Key | None, ...], null: bool) -> Values:
        values = Values(_intervals(ends, self.kind), null)
        if values.is_empty or values == EVERYTHING:
            raise WireError("a test that accepts nothing, or everything")
        if self.allowed is not None and values not in self.allowed:
            raise WireError("a test that is neither true nor false")
        is_short = len(ends) <= _KNOWN_ENDS and not any(
            isinstance(key, bytes) and len(key) > _KNOWN_BYTES for key in ends
        )
        if is_short and self.most_known:
            if len(self.known) >= self.most_known:
                self.known.clear()
            self.known[ends, null] = values
        return values


def _key_kind(type_: Type) -> int:
    if not isinstance(type_, Scalar):
        return _NONE
    if type_.kind is Kind.STRING:
        return _TEXT
    return _WIDE if type_.is_wide else _INTEGER


def _intervals(
    ends: tuple[Key | None, ...], kind: int
) -> tuple[tuple[Key | None, Key | None], ...]:
    """Starts and ends as intervals: of the right kind, ascending, none of them empty or touching the next."""
    if ends == (None, None):
        return ((None, None),)
    if len(ends) % 2:
        raise WireError("an interval without an end")
    _check_keys(ends, kind)
    known = [key for key in ends if key is not None]
    is_ascending = all(a < b for a, b in pairwise(known))  # type: ignore[operator]
    if None in ends[1:-1] or not is_ascending:
        raise WireError("intervals that aren't in order")
    return tuple(zip(ends[::2], ends[1::2], strict=True))


def _check_keys(keys: Sequence[Key | None], kind: int) -> None:
    if len({type(key) for key in keys if key is not None}) > 1:
        raise WireError("keys of two types")
    for key in keys:
        if isinstance(key, bytes):
            if kind not in (_TEXT, _WIDE, _ANSWER) or (kind == _WIDE and len(key) != _WIDE_BYTES):
                raise WireError("a key of another type")
        elif key is not None and (
            kind not in (_INTEGER, _ANSWER) or not INT64_MIN <= key <= INT64_MAX
        ):
            raise WireError("a key of another type")
