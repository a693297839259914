"""Finds the types that an operator takes and answers: from SQL type names as in a schema, or from annotations."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.base.durations import microseconds, quote_briefly
from penstock.base.errors import OperatorError, SchemaError
from penstock.language.types import Array, Kind, Scalar, Struct, Type, Unusable, from_mapping

Duration = str | timedelta
TypeName = Any  # "double", "struct<lat: double, lon: double>", an Arrow type, a Python type, None for anything


def describe_value(value: Any) -> str:
    """A value with its type, for messages."""
    return f"{type(value).__name__} {quote_briefly(str(value))}"


_PYTHON: dict[Any, Type | None] = {
    bool: Scalar(Kind.BOOLEAN),
    int: Scalar(Kind.INTEGER),
    float: Scalar(Kind.DOUBLE),
    str: Scalar(Kind.STRING),
    Decimal: Scalar(
        Kind.DECIMAL, 38, 9
    ),  # Python's decimals have no scale: most digits are before the point
    date: Scalar(Kind.DATE),
    datetime: Scalar(Kind.TIMESTAMP),
    bytes: Unusable("binary"),
    **dict.fromkeys((dict, list, tuple, Any, object, pa.Array, inspect.Parameter.empty), None),
}
_COLLECTIONS = (
    set, frozenset, list, collections.abc.Set, collections.abc.Iterable, collections.abc.Iterator,
    collections.abc.Collection, collections.abc.Sequence,
)  # fmt: skip


def seconds(name: str, what: str, value: Duration) -> float:
    """A duration of an operator, in seconds."""
    try:
        if isinstance(value, str):
            length = microseconds(value)
        elif isinstance(value, timedelta):
            length = value // timedelta(microseconds=1)
        else:
            raise ValueError("is neither text nor a timedelta")
        if length <= 0:
            raise ValueError("is not longer than zero")
    except ValueError as error:
        raise OperatorError(
            f"operator {name!r}: {what} {quote_briefly(str(value))} {error}: write it like '20 ms' or '2 s'"
        ) from None
    return length / 1e6


def hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The annotations of a function; none if they can't be read."""
    if not callable(function):
        raise OperatorError(f"operator {name!r}: {describe_value(function)} is no function")
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001  (an annotation may name anything, and is needed only if no type is given)
        return {}


def parameters_of(
    function: Callable[..., Any],
    name: str,
    hints: dict[str, Any],
    declared: Sequence[TypeName] | None,
) -> tuple[Type | None, ...]:
    """The types of an operator's parameters: those that were given, else those of the annotations."""
    try:
        listed = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        if declared is None:
            raise OperatorError(
                f"operator {name!r} doesn't say what it takes: give arguments=('string', …)"
            ) from None
        listed = []
        variable = True
    else:
        variable = any(p.kind is p.VAR_POSITIONAL for p in listed)
    places = [p for p in listed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in places)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in listed):
        raise OperatorError(
            f"operator {name!r} needs keyword arguments: a filter gives arguments by place only"
        )
    if declared is not None:
        if isinstance(declared, str):
            raise OperatorError(f"operator {name!r}: arguments is a list of types, not one text")
        if len(declared) < needed or (len(declared) > len(places) and not variable):
            raise OperatorError(
                f"operator {name!r}: arguments tells {len(declared)} types, the function takes {len(places)}"
            )
        return tuple(_type(name, f"argument {i + 1}", t) for i, t in enumerate(declared))
    if variable:
        raise OperatorError(
            f"operator {name!r} takes any number of arguments: say which, arguments=('string', …)"
        )
    return tuple(
        _type(name, f"argument {p.name!r}", hints.get(p.name, inspect.Parameter.empty))
        for p in places
    )


def answer_of(
    name: str,
    hint: Any,
    batch: bool,
    result: TypeName | None,
    binds: Sequence[TypeName] | None,
) -> tuple[Scalar | None, tuple[Scalar, ...]]:
    """The type of the value that an operator answers, or the types of the variables that it binds."""
    if result is not None and binds is not None:
        raise OperatorError(f"operator {name!r} answers a value or binds variables, not both")
    if binds is not None:
        if isinstance(binds, str) or not binds:
            raise OperatorError(f"operator {name!r}: binds is a list of at least one type")
        return None, tuple(_scalar(name, f"variable {i + 1}", t) for i, t in enumerate(binds))
    if result is not None:
        return _scalar(name, "result", result), ()
    hint = _plain(hint)
    if batch or hint is None or _PYTHON.get(_hashable(hint), hint) is None:
        raise OperatorError(
            f"operator {name!r} doesn't say what it answers: annotate its result, or give result='boolean' "
            "or binds=('bigint', …)"
        )
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin not in _COLLECTIONS or len(inner) != 1:
        return _scalar(name, "result", hint), ()
    element = inner[0]
    places = typing.get_args(element) if typing.get_origin(element) is tuple else (element,)
    return None, tuple(_scalar(name, f"variable {i + 1}", t) for i, t in enumerate(places))


def _scalar(name: str, what: str, declared: TypeName) -> Scalar:
    type_ = _type(name, what, declared)
    if not isinstance(type_, Scalar):
        raise OperatorError(
            f"operator {name!r}: {what} is {type_ if type_ is not None else 'anything'}, and filters compare "
            "booleans, numbers, strings, dates and timestamps only"
        )
    return type_


def _type(name: str, what: str, declared: TypeName) -> Type | None:
    declared = _plain(declared)
    if declared is None or _hashable(declared) in _PYTHON:
        return _PYTHON.get(declared)
    origin: Any = typing.get_origin(declared)
    inner = typing.get_args(declared)
    if origin is list and len(inner) == 1:
        element = _type(name, what, inner[0])
        return Array(element) if isinstance(element, Scalar) else None
    if origin is not None or (
        isinstance(declared, type) and issubclass(declared, collections.abc.Mapping)
    ):
        return None
    if isinstance(declared, Scalar | Array | Struct | Unusable):
        return declared
    try:
        return from_mapping({what: declared}).fields[0][1]
    except SchemaError as error:
        raise OperatorError(
            f"operator {name!r}: {what}: {describe_value(declared)} is no type: write it like 'double', or int "
            f"({error})"
        ) from error


def _plain(hint: Any) -> Any:
    """`X | None` is X: every attribute may be NULL, and every answer."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [h for h in typing.get_args(hint) if h is not type(None)]
        return rest[0] if len(rest) == 1 else Any
    return hint


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value
