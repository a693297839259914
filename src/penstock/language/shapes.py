"""Filters of one shape share one parse.

A million saved searches are made by a few forms: their texts differ in the literals only. So the literals are lifted
out of every text with one regular expression (about 4 µs a filter, against 70 µs for a parse), what is left is the
key of the *shape*, and each distinct shape is parsed, checked and normalised once. A group is a shape with one column
of literals per slot; the compiler works on whole columns.

What the expression can't lift safely (comments, escapes, dollar quotes …) stays in the key as it is: such a filter is
parsed for itself alone. The same goes for general LIKE patterns, each of which is a predicate of its own.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.errors import FilterError
from penstock.language import literals, patterns
from penstock.language.infer import infer
from penstock.language.literals import Bounds
from penstock.language.normal import Conjunction, normal_form
from penstock.language.parser import MAX_TEXT, SlotNeededError, parse
from penstock.language.schema import Array, Scalar, Schema
from penstock.language.tree import Contains, Factor, Literal, Tree

# A string, a quoted identifier, or a number that is no part of a word. One group, so that `split` keeps them.
_LIFTED = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"""
)
_ODD = re.compile(r"""['"$\\#;{}\0]|--|/\*|escape""", re.IGNORECASE)
_ENDS_IN_WORD = re.compile(r"[\w]$")
_CACHED_SHAPES = 20_000
_EXACT_ERRORS = (
    1_000  # refused filters parsed once more each, so that the error has its own position
)

Key = tuple[str | int, ...]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What filters of one shape have in common."""

    tree: Tree
    conjunctions: tuple[Conjunction, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One literal of a shape: what it is compared with, and how."""

    literal: Literal
    type: Scalar
    is_prefix: bool


@dataclass(frozen=True, slots=True)
class Group:
    """The filters of one shape: their row numbers, and the bounds of each of their literals.

    A column of bounds has one entry per row, or a single one if its literal is the same for all.
    """

    shape: Shape
    rows: npt.NDArray[np.int64]
    bounds: Mapping[Column, Bounds]


@dataclass(slots=True)
class _Gathered:
    """A group while texts are still being sorted: literals as written, one tuple per filter."""

    shape: Shape
    rows: list[int] = field(default_factory=list)
    lifted: list[tuple[str, ...]] = field(default_factory=list)

    def texts(self, literal: Literal) -> list[str]:
        """The values of one literal, strings unquoted."""
        if literal.slot is None:
            return [literal.text]
        column = [values[literal.slot] for values in self.lifted]
        if column[0][0] == "'":
            return [v[1:-1].replace("''", "'") if "''" in v else v[1:-1] for v in column]
        return column

    def without(self, bad: set[int]) -> "_Gathered":
        """The group less the filters at these positions of it."""
        keep = [i for i in range(len(self.rows)) if i not in bad]
        return _Gathered(self.shape, [self.rows[i] for i in keep], [self.lifted[i] for i in keep])


class Shapes:
    """The shapes met so far under one schema; without one, each shape is read under the schema it implies."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self._shapes: dict[Key, Shape | FilterError | None] = {}

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def under(schema: Schema | None) -> "Shapes":
        """The shared cache for a schema."""
        return Shapes(schema)

    def parse(self, text: str) -> Shape:
        """The shape of one filter on its own, nothing lifted: every literal is in the tree."""
        tree = parse(text, self.schema or infer(text))
        return Shape(tree, normal_form(text, tree))

    def group(
        self, texts: Sequence[str | None], progress: Progress | None = None
    ) -> tuple[list[Group], list[tuple[int, FilterError]]]:
        """Sort filters by shape. The second list has those that can't be subscribed, by row, with the reason."""
        gathered: dict[Key, _Gathered] = {}
        refused: list[int] = []
        for row, text in enumerate(texts):
            if text is None:
                refused.append(row)
                continue
            key, lifted = _lift(text)
            group = gathered.get(key)
            if group is None:
                shape = self._shape(key, text, lifted)
                if shape is None:
                    key, lifted = (text,), ()
                    shape = self._shape(key, text, lifted)
                if isinstance(shape, FilterError) or shape is None:
                    refused.append(row)
                    continue
                group = gathered.setdefault(key, _Gathered(shape))
            group.rows.append(row)
            group.lifted.append(lifted)
            if progress is not None and row % 4096 == 4095:
                progress(4096)
        groups: list[Group] = []
        errors = self._explain(texts, refused)
        for group in gathered.values():
            errors += self._convert(group, texts, groups)
        return groups, sorted(errors, key=lambda e: e[0])

    def _convert(
        self, gathered: _Gathered, texts: Sequence[str | None], groups: list[Group]
    ) -> list[tuple[int, FilterError]]:
        """Turn literals into bounds; a filter with one that can't be read (a date that is none) is taken out."""
        found: dict[Column, Bounds] = {}
        bad: dict[int, FilterError] = {}
        for number, column in enumerate(columns(gathered.shape)):
            literal = column.literal
            if column in found:
                continue
            values = gathered.texts(literal)
            if column.is_prefix:
                heads = values if literal.slot is None else [v.rstrip("%") for v in values]
                found[column] = literals.prefix_bounds(heads)
                continue
            found[column], unreadable = literals.bounds(literal, values, column.type)
            for one in unreadable:
                for i in (one.position,) if literal.slot is not None else range(len(gathered.rows)):
                    if i not in bad:
                        bad[i] = self._unreadable(texts[gathered.rows[i]], number, one.reason)
        if bad:
            rest = gathered.without(set(bad))
            errors = [(gathered.rows[i], error) for i, error in bad.items()]
            return errors + (self._convert(rest, texts, groups) if rest.rows else [])
        groups.append(Group(gathered.shape, np.array(gathered.rows, np.int64), found))
        return []

    def _unreadable(self, text: str | None, number: int, reason: str) -> FilterError:
        """The error for one literal, found again in its own text by its place in the shape."""
        assert text is not None
        span = columns(self.parse(text))[number].literal.span
        return FilterError(text, reason, *span)

    def _shape(self, key: Key, text: str, lifted: tuple[str, ...]) -> Shape | FilterError | None:
        if key in self._shapes:
            return self._shapes[key]
        if len(self._shapes) >= _CACHED_SHAPES:
            self._shapes.clear()
        shape: Shape | FilterError | None
        try:
            tree = parse(text, self.schema or infer(text), _slots(text, lifted))
            shape = Shape(tree, normal_form(text, tree))
        except SlotNeededError:
            shape = None
        except FilterError as error:
            shape = error
        if len(text) < 4096:  # long texts are rare and would fill the cache with themselves
            self._shapes[key] = shape
        return shape

    def _explain(
        self, texts: Sequence[str | None], refused: Sequence[int]
    ) -> list[tuple[int, FilterError]]:
        """Why each filter was refused: parsed once more alone, so that the position is its own."""
        errors: list[tuple[int, FilterError]] = []
        for row in refused:
            text = texts[row]
            if text is None:
                errors.append((row, FilterError("", "the filter is NULL")))
            elif len(errors) < _EXACT_ERRORS:
                errors.append((row, self._error(text)))
            else:
                errors.append((row, FilterError(text, "refused for a reason like those before")))
        return errors

    def _error(self, text: str) -> FilterError:
        try:
            self.parse(text)
        except FilterError as error:
            return error
        raise AssertionError(f"refused as a shape, accepted alone: {text[:200]!r}")


def constant_group(shape: Shape, row: int) -> Group:
    """A group of one filter whose literals are all in its tree, and known to be readable."""
    found: dict[Column, Bounds] = {}
    for column in columns(shape):
        texts = [column.literal.text]
        if column.is_prefix:
            found[column] = literals.prefix_bounds(texts)
        else:
            found[column], _ = literals.bounds(column.literal, texts, column.type)
    return Group(shape, np.array([row], np.int64), found)


def columns(shape: Shape) -> list[Column]:
    """Every literal of a shape with what it is compared with, in order."""
    found: list[Column] = []
    for term in (term for conjunction in shape.conjunctions for term in conjunction):
        if isinstance(term, Factor):
            if isinstance(term.attribute.type, Scalar):
                type_ = term.attribute.type
                found += [Column(p.literal, type_, p.order == "prefix") for p in term.pieces]
        elif isinstance(term.test, Contains) and isinstance(term.test.attribute.type, Array):
            found.append(Column(term.test.literal, term.test.attribute.type.element, False))
    return found


def _lift(text: str) -> tuple[Key, tuple[str, ...]]:
    """The key of a filter's shape and the literals taken out of it."""
    if len(text) > MAX_TEXT:
        return (text,), ()
    parts = _LIFTED.split(text)
    lifted = tuple(parts[1::2])
    if "ike" in text or "IKE" in text:
        parts[1::2] = [_like_kind(parts[i - 1], parts[i]) for i in range(1, len(parts), 2)]
    else:
        parts[1::2] = [_kind(literal) for literal in lifted]
    return tuple(parts), lifted


def _kind(literal: str) -> str | int:
    # Integers stand for the kinds, so that no kind can be mistaken for a quoted identifier, which stays as it is.
    first = literal[0]
    if first == "'":
        return 0
    if first == '"':
        return literal
    if "." in literal:
        return 3 if "e" in literal or "E" in literal else 2
    return 3 if "e" in literal or "E" in literal else 1


def _like_kind(before: str, literal: str) -> str | int:
    if literal[0] == "'" and before.rstrip()[-4:].lower() == "like":
        parts = patterns.take_apart(literal[1:-1])
        if len(literal) <= patterns.MAX_PATTERN:
            return 4 if parts.is_exact else 5 if parts.is_prefix else literal
        return literal
    return _kind(literal)


def _slots(text: str, lifted: tuple[str, ...]) -> dict[int, int]:
    """Where in the text each lifted literal begins. Nothing is lifted from a text with odd parts."""
    slots: dict[int, int] = {}
    position = 0
    for index, part in enumerate(_LIFTED.split(text) if lifted else ()):
        if index % 2:
            slots[position] = index // 2
        elif _ODD.search(part):
            raise SlotNeededError
        elif (
            _ENDS_IN_WORD.search(part)
            and text[position + len(part) : position + len(part) + 1] == "'"
        ):
            raise SlotNeededError  # E'…', x'…'
        position += len(part)
    return slots
