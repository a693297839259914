"""What is compared where filters are read in two ways: the normal form, the literals and their bounds, the errors."""

from typing import Any

import pyarrow as pa

from penstock import FilterError
from penstock.language.filter_tree import Comparison, Contains, Factor, Pattern
from penstock.language.normal import Term
from penstock.language.pools import Column, width
from penstock.language.shapes import Grouped, Shape, Shapes


def form(term: Term, literals_: list[tuple[Column, str]]) -> tuple[Any, ...]:
    """A term with the texts of its literals, whatever place it has in which text."""
    values = [(column.pool, text) for column, text in literals_]
    if isinstance(term, Factor):
        orders = [piece.order for piece in term.pieces]
        return term.attribute, term.negated, term.null, term.total, orders, values
    match term.test:
        case Pattern(attribute):
            return attribute, values, term.holds
        case Contains(attribute):
            return attribute, values, term.holds
        case Comparison(left, order, right):
            return left, order, right, term.holds


def whole(shape: Shape) -> list[list[tuple[Any, ...]]]:
    """The normal form of a filter parsed as a whole."""
    columns = iter(shape.columns)
    result = []
    for conjunction in shape.conjunctions:
        result.append([])
        for term in conjunction:
            own = [next(columns) for _ in range(width(term))]
            result[-1].append(form(term, [(column, column.literal.text) for column in own]))
    return result


def put_together(found: Grouped, number: int) -> list[tuple[Any, ...]]:
    """The conjunction with this number, read from the columns."""
    plain = found.plain
    result = []
    for t in range(plain.start[number], plain.start[number + 1]):
        term = plain.terms[plain.term[t]]
        own = []
        for p in range(plain.piece_start[t], plain.piece_start[t + 1]):
            column = plain.columns[plain.piece[p]]
            pool = found.pools[column.pool]
            texts = [text.decode() for text in pool.lifted.to_pylist()] + pool.texts
            own.append((column, texts[plain.position[p]]))
        if isinstance(term, Factor) and len(own) > len(term.pieces):
            assert len(term.pieces) == 1, "only a single piece repeats"
            term = Factor(**{**fields(term), "pieces": term.pieces * len(own)})
        result.append(form(term, own))
    return result


def fields(factor: Factor) -> dict[str, Any]:
    return {name: getattr(factor, name) for name in factor.__dataclass_fields__}


def alone(shapes: Shapes, text: str) -> Shape | FilterError:
    """The definition: the filter parsed as a whole, and each of its literals read."""
    try:
        shape = shapes.parse(text)
        for column in shape.columns:
            try:
                column.pool.convert_one(column.literal.text)
            except ValueError as error:
                return FilterError(text, str(error), *column.literal.span)
    except FilterError as error:
        return error
    return shape


def message(error: FilterError) -> tuple[Any, ...]:
    return str(error), error.start, error.end, error.expected, error.found, error.hint


def check_batch(shapes: Shapes, texts: list[str]) -> int:
    """Compare a batch with the definition; how many filters were put together from atoms."""
    found = shapes.read(texts)
    errors = dict(found.errors)
    assert len(errors) == len(found.errors)
    grouped = {row for group in found.groups for row in group.rows}
    plain = {row: number for number, row in enumerate(found.plain.rows.tolist())}
    assert not grouped & set(plain)
    for row, text in enumerate(texts):
        expected = alone(shapes, text)
        if isinstance(expected, FilterError):
            assert message(errors[row]) == message(expected), text
            continue
        assert row not in errors, f"{text!r}: {errors.get(row)}"
        assert (row in plain) or (row in grouped), text
        if row in plain:
            assert [put_together(found, plain[row])] == whole(expected), text
    for key, pool in found.pools.items():
        texts_ = [text.decode() for text in pool.lifted.to_pylist()] + pool.texts
        assert pool.bounds is not None
        assert len(pool.bounds) == len(texts_) == len(pool)
        for position, text in enumerate(texts_):
            try:
                lo, hi, over = key.convert_one(text)
            except ValueError:
                continue
            assert _value(pool.bounds.lo[position]) == lo, (key, text)
            assert _value(pool.bounds.hi[position]) == hi, (key, text)
            assert (0 if pool.bounds.over is None else pool.bounds.over[position]) == over, (
                key,
                text,
            )
    return len(plain)


def check_one(shapes: Shapes, text: str) -> None:
    """A single filter is read to the same terms and literals, or the same error, as by a whole parse."""
    expected = alone(shapes, text)
    try:
        found: Any = shapes.one(text)
    except FilterError as error:
        found = error
    if isinstance(found, FilterError):
        assert isinstance(expected, FilterError)
        assert message(found) == message(expected)
    elif isinstance(expected, Shape):
        terms = [[form(term, own) for term, own in conjunction] for conjunction in found]
        for one, other in zip(terms, whole(expected), strict=True):
            assert sorted(one, key=repr) == sorted(other, key=repr)


def _value(key: Any) -> Any:
    return key.as_py() if isinstance(key, pa.Scalar) else int(key)
