"""Learns a schema from published records: attributes are added as records bring them.

    true, false      boolean                        bigint and double give double
    5                bigint                         two structs give one with the fields of both
    5.5              double                         two arrays give one whose elements fit both
    "GOOG"           string                         any other conflict is refused
    {…}, […]         struct, array
    null, [], {}     say nothing: the attribute is left out until a value says more

A schema only grows, so every record that was accepted can be read ever after. If two records conflict, the first one
decides. Records that don't conflict give the same schema in any order, except for the order of its attributes.
"""

from typing import Any

from penstock.language.types import Scalar, Struct, Type
from penstock.server.publishing.attribute_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MOST_LEVELS,
    STRING,
    TIMESTAMP,
    array_of,
    ddl_type,
    element_of,
    name_problem,
)
from penstock.server.publishing.record_problems import (
    Problem,
    name_value,
    raise_if_infinite,
    shorten,
    unknown_attribute,
)

MOST_ATTRIBUTES = 2_000
"""The most attributes that are learned, fields of structs included: schemas are compiled, so their size is bounded."""

MOST_GROWTH = 100
"""The most records of one request that may bring new attributes: the cost of each grows with the schema."""

_Path = tuple[str, ...]
_NOTHING = Struct(())


class Learner:
    """The schema so far. It grows with each record that fits."""

    def __init__(self, root: Struct) -> None:
        self.root = root
        self._grown = 0

    def learn(self, record: dict[str, Any]) -> dict[str, Any]:
        """Learn from a record; returns the record without attributes that say nothing.

        If it conflicts with what was learned before, raises Problem and learns nothing.

        >>> learner = Learner(_NOTHING)
        >>> learner.learn({"price": 5, "venue": {"country": "CH"}, "note": None})
        {'price': 5, 'venue': {'country': 'CH'}}
        >>> _ = learner.learn({"price": 5.5})
        >>> print(learner.root)
        struct<price: double, venue: struct<country: string>>
        >>> learner.learn({"price": "5"})
        Traceback (most recent call last):
        penstock.server.publishing.record_problems.Problem: double until now, not the text '5'
        """
        telling = _telling(record, self.root)
        root = _struct(telling, self.root, ())
        if root == self.root:
            return telling
        self._grown += 1
        if self._grown > MOST_GROWTH:
            raise Problem(
                None,
                f"brings new attributes, as {MOST_GROWTH} records before it in the same request",
                "declare a schema, or publish fewer names: what differs from record to record is a value",
            )
        if count_attributes(root) > MOST_ATTRIBUTES:
            raise Problem(
                None,
                f"brings new attributes, and {MOST_ATTRIBUTES:,} are known already",
                "declare a schema, or publish fewer names: what differs from record to record is a value",
            )
        self.root = root
        return telling


def merge(left: Struct, right: Struct) -> Struct | None:
    """The schema that has the attributes of both; None if they conflict."""
    try:
        return _merge_structs(left, right, ())
    except Problem:
        return None


def count_attributes(type_: Type) -> int:
    """The number of attributes and fields, on all levels."""
    if isinstance(type_, Struct):
        return sum(1 + count_attributes(inner) for _, inner in type_.fields)
    element = element_of(type_)
    return 0 if element is None else count_attributes(element)


def _telling(value: dict[str, Any], known: Type | None) -> dict[str, Any]:
    """A record without unknown attributes whose values say nothing."""
    types = dict(known.fields) if isinstance(known, Struct) else {}
    found: dict[str, Any] = {}
    for name, inner in value.items():
        told = _items([inner], array_of(types[name]) if name in types else None)[0]
        if name in types or not _is_empty([told]):
            found[name] = told
    return found


def _items(values: list[Any], known: Type | None) -> list[Any]:
    element = element_of(known) if known is not None else None
    return [
        _telling(value, element)
        if isinstance(value, dict)
        else _items(value, element)
        if isinstance(value, list)
        else value
        for value in values
    ]


def _is_empty(value: Any) -> bool:
    """Whether a value is an array in which nothing has a type."""
    return isinstance(value, list) and all(v is None or v == {} or _is_empty(v) for v in value)


def _struct(record: dict[str, Any], known: Struct, path: _Path) -> Struct:
    if len(path) > MOST_LEVELS:
        raise Problem(".".join(path), f"nests deeper than {MOST_LEVELS} levels")
    types = dict(known.fields)
    lower = {name.lower(): name for name in types}
    for name, value in record.items():
        here = (*path, name)
        if name not in types:
            _check_name(here, lower)
            lower[name.lower()] = name
        type_ = _type_of(value, types.get(name), here)
        if type_ is not None:
            types[name] = type_
    return Struct(tuple(types.items()))


def _check_name(path: _Path, lower: dict[str, str]) -> None:
    name = path[-1]
    if len(path) == 1 and name.startswith("_"):
        raise unknown_attribute(path, [])
    if (problem := name_problem(name)) is not None:
        raise Problem(shorten(".".join(path)), problem)
    if (other := lower.get(name.lower())) is not None:
        reason = f"differs from {other!r} in its case only, and filters don't tell them apart"
        raise Problem(".".join(path), reason, f"did you mean {other!r}?")


def _type_of(value: Any, known: Type | None, path: _Path) -> Type | None:
    """The type of an attribute, given its type so far and one more value."""
    if value is None:
        return known
    if isinstance(value, dict):
        inner = known if isinstance(known, Struct) else _NOTHING
        found: Type = _struct(value, inner, path)
        if found == _NOTHING and known is None:
            return None
    elif isinstance(value, list):
        element = None if known is None else element_of(known)
        # Nested items twice: an empty one, like [], may stand before an item that it conflicts with.
        for item in (*value, *(v for v in value if isinstance(v, dict | list))):
            element = _type_of(item, element, (*path[:-1], f"{path[-1]}[]"))
        if element is None:
            if known is not None:
                raise _conflict(known, value, path)
            return None
        found = array_of(element)
    else:
        found = _scalar(value, known, ".".join(path))
    if known is None or known == found:
        return found
    return _merged(known, found, value, path)


def _scalar(value: Any, known: Type | None, name: str) -> Type:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        if "\0" in value:
            raise Problem(name, "has the character NUL, which not every database can hold")
        return TIMESTAMP if known == TIMESTAMP else STRING
    if isinstance(value, float):
        return DOUBLE
    raise_if_infinite(value, name)
    if known != DOUBLE and not -(2**63) <= value < 2**63:
        raise Problem(name, f"{name_value(value)} doesn't fit 64 bits")
    return BIGINT


def _merged(known: Type, found: Type, value: Any, path: _Path) -> Type:
    try:
        return _merge(known, found, path)
    except Problem:
        raise _conflict(known, value, path) from None


def _conflict(known: Type, value: Any, path: _Path) -> Problem:
    return Problem(".".join(path), f"{_said(known)} until now, not {name_value(value)}")


def _merge(left: Type, right: Type, path: _Path) -> Type:
    if left == right:
        return left
    if {left, right} == {BIGINT, DOUBLE}:
        return DOUBLE
    if isinstance(left, Struct) and isinstance(right, Struct):
        return _merge_structs(left, right, path)
    mine, other = element_of(left), element_of(right)
    if mine is not None and other is not None:
        return array_of(_merge(mine, other, path))
    raise Problem(".".join(path), f"{_said(left)} until now, not {_said(right)}")


def _merge_structs(left: Struct, right: Struct, path: _Path) -> Struct:
    types = dict(left.fields)
    lower = {name.lower(): name for name in types}
    for name, type_ in right.fields:
        if name not in types:
            _check_name((*path, name), lower)
        types[name] = _merge(types[name], type_, (*path, name)) if name in types else type_
    return Struct(tuple(types.items()))


def _said(type_: Type) -> str:
    if isinstance(type_, Scalar):
        return ddl_type(type_)
    return "an object" if isinstance(type_, Struct) else "an array"
