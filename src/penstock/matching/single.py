"""One event, given as a mapping, to cells: microseconds, without Arrow.

A broker has one event at a time. To make an Arrow batch of one row costs more than to match it, so the common kinds of
values (integers, doubles, booleans, dates, timestamps, strings) are read from the mapping into two small arrays, and
one kernel finds all their cells. Patterns are found by the same kernel as in batches. Rarer kinds (decimals, arrays,
attributes compared with each other) are put into a batch of the columns that they need.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, cast

import numpy as np

from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.columns import descend
from penstock.base.errors import SchemaError
from penstock.base.jit import kernel
from penstock.language.computed import ComputedColumns, event_columns, find_attribute
from penstock.language.literals import NAN_KEY, double_key
from penstock.language.schema import Schema
from penstock.language.types import Kind, Scalar
from penstock.matching.computed_events import has_computed_key
from penstock.matching.domains import ByteStrings
from penstock.matching.engines.gates import Gate, LonePattern, cells_of
from penstock.matching.events import event_batch, event_value
from penstock.matching.kernels import FALSE, TRUE, UNKNOWN, byte_cells
from penstock.matching.plan import Plan
from penstock.matching.text_patterns import FoundPatterns, TextPatterns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_INT64 = 1 << 63
_INTEGERS = {int}
_STRING = Scalar(Kind.STRING)
_MISSING = np.ones(1, np.bool_)

ToKey = Callable[[Any], int]


class EventEncoder:
    """Turns one event into a column of cells, the same that `Plan.encode` gives for a batch of one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers: list[tuple[tuple[str, ...], Scalar, ToKey]] = []
        self._texts: list[tuple[tuple[str, ...], Scalar]] = []
        self._slow: list[int] = []  # the attributes that are put into a batch
        number_spans: list[tuple[int, int, int]] = []  # row, first and past cut
        text_spans: list[tuple[int, int, int]] = []
        number = text = 0
        for row, domain in enumerate(plan.domains):
            type_, count = domain.type, len(domain.cuts)
            if has_computed_key(domain.path, type_):
                assert isinstance(type_, Scalar)
                self._numbers.append((domain.path, type_, _given))
                number_spans.append((row, number, number + count))
            elif isinstance(type_, Scalar) and type_.kind is Kind.STRING:
                self._texts.append((domain.path, type_))
                text_spans.append((row, text, text + count))
            elif isinstance(type_, Scalar) and type_.kind in _KEYS:
                self._numbers.append((domain.path, type_, _KEYS[type_.kind]))
                number_spans.append((row, number, number + count))
            else:
                self._slow.append(row)
            if isinstance(domain.cuts, ByteStrings):
                text += count
            else:
                number += count
        integers = all(
            len(path) == 1 and type_.kind is Kind.INTEGER for path, type_, _ in self._numbers
        )
        self._integer_names = [path[0] for path, _, _ in self._numbers] if integers else []
        self._number_spans = np.array(number_spans, np.int64).reshape(-1, 3)
        self._text_spans = np.array(text_spans, np.int64).reshape(-1, 3)
        base = len(plan.domains)
        self._tests = [(base + n, test) for n, test in enumerate(plan.derived.plain)]
        self._patterns = plan.derived.patterns
        self._first_pattern = base + len(self._tests)
        paths = [plan.domains[row].path for row in self._slow]
        paths += [path for _, test in self._tests for path in test.paths()]
        paths += [domain.path for domain in plan.derived.elements]
        self._computed = ComputedColumns(plan.schema, paths)
        self._columns = sorted(event_columns(plan.schema, paths))

    def cells(self, event: Mapping[str, Any], now: int) -> Int32s:
        """The cells of one event: as many rows as the plan has attributes, one column.

        The event must have the computed attributes of the plan (`computed_events`).
        """
        plan = self._plan
        out = np.empty((plan.attributes, 1), np.int32)
        if self._numbers:
            self._number_cells(event, out)
        if self._texts:
            self._text_cells(event, out)
        if len(self._patterns):
            self._pattern_cells(event, out)
        if self._columns or self._computed:
            self._rest(event, out, now)
        return out

    def _number_cells(self, event: Mapping[str, Any], out: Int32s) -> None:
        nulls: list[int] = []
        keys = self._all_integers(event)
        if keys is None:
            found: list[int] = []
            for path, type_, key in self._numbers:
                value = event.get(path[0]) if len(path) == 1 else _descend(event, path)
                if value is None:
                    nulls.append(len(found))
                    found.append(0)
                else:
                    found.append(_checked(value, type_, path, key))
            keys = np.array(found, np.int64)
        spans = self._number_spans
        _number_cells(keys, self._plan.cuts.numbers, spans, out)
        for place in nulls:
            out[spans[place, 0], 0] = 0

    def _all_integers(self, event: Mapping[str, Any]) -> Int64s | None:
        """The keys, if all the numbers asked for are integers and the event has them all: the quickest case."""
        if not self._integer_names:
            return None
        values = [event.get(name) for name in self._integer_names]
        if set(map(type, values)) != _INTEGERS:
            return None
        try:
            return np.array(values, np.int64)
        except OverflowError:
            return None

    def _text_cells(self, event: Mapping[str, Any], out: Int32s) -> None:
        texts: list[bytes] = []
        lengths: list[int] = []
        for path, type_ in self._texts:
            value = event.get(path[0]) if len(path) == 1 else _descend(event, path)
            text = _text(value, type_, path)
            data = b"" if text is None else text.encode()
            texts.append(data)
            lengths.append(-1 if text is None else len(data))
        cuts = self._plan.cuts.texts
        _text_cells(
            np.frombuffer(b"".join(texts) or b"\0", np.uint8),
            np.array(lengths, np.int64),
            cuts.offsets,
            cuts.data,
            self._text_spans,
            out,
        )

    def _pattern_cells(self, event: Mapping[str, Any], out: Int32s) -> None:
        patterns, first = self._patterns, self._first_pattern
        texts = texts_of(event, patterns)
        of_paths = np.array([UNKNOWN if text is None else FALSE for text in texts], np.int32)
        out[first : first + len(patterns), 0] = of_paths[patterns.attribute]
        out[first + patterns.find_in(texts), 0] = TRUE
        for number in np.flatnonzero(~patterns.indexed).tolist():
            text = texts[patterns.attribute[number]]
            out[first + number, 0] = patterns.text_cell(number, text)

    def _rest(self, event: Mapping[str, Any], out: Int32s, now: int) -> None:
        """The cells of attributes of rarer kinds, by way of a batch."""
        plan = self._plan
        batch = self._computed.add_to(event_batch(event, plan.schema, self._columns), now)
        for row in self._slow:
            column = descend(batch, plan.domains[row].path)
            assert column is not None
            plan.domains[row].cells(column, out[row])
        for row, test in self._tests:
            test.cells(batch, out[row])
        if len(plan.derived.array):
            plan.derived.member_cells(batch, out[len(plan.domains) + plan.derived.first_member :])


def texts_of(event: Mapping[str, Any], patterns: TextPatterns) -> list[str | None]:
    """The texts of one event that patterns are searched for in."""
    return [_text(_descend(event, path), _STRING, path) for path in patterns.paths]


def find_patterns(event: Mapping[str, Any], patterns: TextPatterns) -> FoundPatterns:
    """The patterns that one event matches."""
    texts = texts_of(event, patterns)
    missing = tuple(_MISSING if text is None else None for text in texts)
    return FoundPatterns(len(patterns), patterns.find_in(texts), missing)


class LazyTests:
    """Evaluates lazy tests for single events, when their cells are asked for."""

    def __init__(self, schema: Schema, gate: Gate) -> None:
        self._schema = schema
        self._gate = gate

    def cell(
        self, number: int, event: Mapping[str, Any], found: FoundPatterns | None, now: int
    ) -> int:
        """The cell of a test, for an event that has the computed attributes, and the patterns that were found in it."""
        if found is not None and self._gate.is_found(number):
            return self._gate.found_cell(found, number)
        test = self._gate.lazy_test(number)
        if isinstance(test, LonePattern):
            path = test.paths()[0]
            return test.patterns.text_cell(test.number, _text(_descend(event, path), _STRING, path))
        paths = test.paths()
        batch = event_batch(event, self._schema, sorted(event_columns(self._schema, paths)))
        batch = ComputedColumns(self._schema, paths).add_to(batch, now)
        return int(cells_of(test, batch, np.zeros(1, np.int32))[0])


KeyReader = Callable[[Mapping[str, Any]], int | bytes | None]


def key_reader(schema: Schema, path: tuple[str, ...]) -> KeyReader | None:
    """How to read the key of one attribute from an event, None being NULL; None if it isn't of a common kind."""
    attribute = find_attribute(schema, path)
    if attribute is None or not isinstance(attribute.type, Scalar):
        return None
    type_ = attribute.type
    if has_computed_key(path, type_):
        return lambda event: cast(int | None, _descend(event, path))
    if type_.kind is Kind.STRING:

        def read_text(event: Mapping[str, Any]) -> bytes | None:
            text = _text(_descend(event, path), type_, path)
            return None if text is None else text.encode()

        return read_text
    if type_.kind not in _KEYS:
        return None
    key = _KEYS[type_.kind]

    def read_number(event: Mapping[str, Any]) -> int | None:
        value = _descend(event, path)
        return None if value is None else _checked(value, type_, path, key)

    return read_number


def _descend(event: Any, path: tuple[str, ...]) -> Any:
    for depth, step in enumerate(path):
        if event is None:
            return None
        if not isinstance(event, Mapping):
            name = ".".join(path[:depth])
            raise SchemaError(f"attribute {name!r}: expected a struct, found {event!r}")
        event = event.get(step)
    return event


def _checked(value: Any, type_: Scalar, path: tuple[str, ...], key: ToKey) -> int:
    """The key of a value. It may also be written in another way that events have, like a date as text."""
    try:
        return key(value)
    except (TypeError, OverflowError):
        converted = event_value(value, type_, ".".join(path))
        # A timestamp written as text is read into microseconds, which are its key.
        return converted if type(converted) is int else key(converted)


def _text(value: Any, type_: Scalar, path: tuple[str, ...]) -> str | None:
    if value is None or (type(value) is str and value.isascii()):
        return value
    text: str = event_value(value, type_, ".".join(path))
    return text


def _given(value: Any) -> int:
    """The key of a computed attribute, which is what the event has for it."""
    key: int = value
    return key


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    if not -_INT64 <= value < _INT64:
        raise OverflowError
    return value


def _double(value: Any) -> int:
    if type(value) is not float:
        raise TypeError
    return double_key(value) if value == value else NAN_KEY


def _boolean(value: Any) -> int:
    if type(value) is not bool:
        raise TypeError
    return int(value)


def _date(value: Any) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError
    return value.toordinal() - _EPOCH_DAY


def _timestamp(value: Any) -> int:
    if not isinstance(value, datetime):
        raise TypeError
    passed = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


_KEYS: dict[Kind, ToKey] = {
    Kind.INTEGER: _integer,
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}


@kernel
def _number_cells(keys: Int64s, cuts: Int64s, spans: Int64s, out: Int32s) -> None:
    for d in range(len(keys)):
        key = keys[d]
        first, past = spans[d, 1], spans[d, 2]
        low, high = first, past
        while low < high:
            middle = (low + high) >> 1
            if cuts[middle] < key:
                low = middle + 1
            else:
                high = middle
        point = low < past and cuts[low] == key
        out[spans[d, 0], 0] = 2 * (low - first) + (2 if point else 1)


@kernel
def _text_cells(
    data: Bytes, lengths: Int64s, cut_offsets: Int64s, cut_data: Bytes, spans: Int64s, out: Int32s
) -> None:
    """A length of -1 is NULL."""
    valid = np.empty(0, np.bool_)
    where = np.zeros(2, np.int64)
    for d in range(len(lengths)):
        row, first, past = spans[d]
        if lengths[d] < 0:
            out[row, 0] = 0
            continue
        where[1] = where[0] + lengths[d]
        byte_cells(where, data, valid, cut_offsets[first : past + 1], cut_data, out[row])
        where[0] = where[1]
