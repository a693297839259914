"""Signatures: what reading a filter requires of an operator, without its function: name, parameters, answer.

Signatures are data. They are part of the schema that filters are read under, and of the header of a plan. By `source`
they say where a worker finds the function.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.base.errors import OperatorError
from penstock.language.syntax import DIALECT, FUNCTION_NAMES, nearest_name
from penstock.language.types import Scalar, Type, from_json, to_json

MAX_ARGUMENTS = 64  # that a call has, what it is given and what it binds together
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Signature:
    """One operator.

    It is called as `name(arguments …)` if it answers a value, or true or false, and as `name(arguments …, variables …)`
    if it binds: then it answers a set of tuples, and the predicate is true if there is one that fits.
    """

    name: str
    parameters: tuple[Type | None, ...]  # None: anything
    result: Scalar | None  # None if it binds
    binds: tuple[Scalar, ...]
    source: str  # "module:name"
    cost: float  # seconds that a call is expected to take, until it is known better
    timeout: float | None  # seconds
    batch: bool  # takes Arrow arrays, one element per event, instead of one event's values

    def usage(self) -> str:
        """How it is called: with types for what it is given, and variables for what it binds."""
        given = ["anything" if t is None else str(t) for t in self.parameters]
        return f"{self.name}({', '.join([*given, *(f':{t}' for t in self.binds)])})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        types = {
            "parameters": [None if t is None else to_json(t) for t in self.parameters],
            "result": None if self.result is None else to_json(self.result),
            "binds": [to_json(t) for t in self.binds],
        }
        return {f.name: types.get(f.name, getattr(self, f.name)) for f in fields(self)}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> "Signature":
        """What `to_dict` gave."""
        types = {
            "parameters": tuple(None if t is None else from_json(t) for t in value["parameters"]),
            "result": None if value["result"] is None else _scalar(value["result"]),
            "binds": tuple(map(_scalar, value["binds"])),
        }
        return Signature(**{**value, **types})


@dataclass(frozen=True)
class Signatures:
    """The operators that filters may use, by name; names are compared without regard to case, as in SQL."""

    operators: tuple[Signature, ...] = ()

    @staticmethod
    def of(operators: Iterable[Signature]) -> "Signatures":
        """Sorted by name, so that the same operators are equal whatever order they were registered in."""
        return Signatures(tuple(sorted(operators, key=lambda s: s.name.lower())))

    def find(self, name: str) -> Signature | None:
        """The operator of this name."""
        return self._by_name.get(name.lower())

    @functools.cached_property
    def _by_name(self) -> dict[str, Signature]:
        return {signature.name.lower(): signature for signature in self.operators}

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.operators)  # caches ask at each filter, as for a schema

    def suggestion(self, name: str) -> str | None:
        """The operator whose name is nearest to a misspelt one."""
        return nearest_name(name, (s.name for s in self.operators))

    def __iter__(self) -> Iterator[Signature]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def interface(self) -> list[dict[str, Any]]:
        """What filters and answers depend on: not what calls are expected to cost."""
        unimportant = ("cost", "timeout")
        return [{n: v for n, v in s.to_dict().items() if n not in unimportant} for s in self]

    def to_json(self) -> str:
        """Text that `from_json` reads."""
        return json.dumps([s.to_dict() for s in self.operators])

    @staticmethod
    def from_json(text: str) -> "Signatures":
        """Read what `to_json` wrote."""
        return Signatures(tuple(Signature.from_dict(value) for value in json.loads(text)))


NO_OPERATORS = Signatures()


def bound_variables(
    tree: exp.Expr, operators: Signatures
) -> Iterator[tuple[exp.Placeholder, Scalar]]:
    """The variables in the places that operators bind, in the order of the text, and what each is bound as."""
    for call in tree.find_all(exp.Anonymous, bfs=False) if len(operators) else ():
        signature = operators.find(call.name)
        if signature is not None:
            outputs = call.expressions[len(signature.parameters) :]
            for argument, type_ in zip(outputs, signature.binds, strict=False):
                if isinstance(argument, exp.Placeholder):
                    yield argument, type_


def check_name(name: str) -> None:
    """Refuse a name that a filter couldn't call: OperatorError.

    SQL parsers read some names their own way (`left(a, 1)`, `count(a)`, `date(a)`): which ones, only the parser knows.
    """
    if not _NAME.fullmatch(name):
        raise OperatorError(
            f"an operator can't be named {name[:100]!r}: a name has letters, digits and _, at most 64, no digit first"
        )
    if name.lower() in FUNCTION_NAMES or not all(_is_call(name, count) for count in range(5)):
        raise OperatorError(
            f"an operator can't be named {name!r}: SQL has a meaning for it, choose another name"
        )


def _is_call(name: str, arguments: int) -> bool:
    """Whether a call with so many arguments is read as a call of nothing known, with all of them."""
    listed = ", ".join(["a", "'b'", ":c", "4"][:arguments])
    try:
        tree = sqlglot.parse_one(
            f"NOT {name}({listed}) AND {name}({listed}) BETWEEN 1 AND 2",
            dialect=DIALECT,
            into=exp.Condition,
        )
    except SqlglotError:
        return False
    if not isinstance(tree, exp.And):
        return False
    ends = tree.this, tree.expression
    return (
        isinstance(ends[0], exp.Not)
        and isinstance(ends[1], exp.Between)
        and all(
            type(end.this) is exp.Anonymous
            and end.this.this == name
            and len(end.this.expressions) == arguments
            for end in ends
        )
    )


def _scalar(value: Any) -> Scalar:
    type_ = from_json(value)
    assert isinstance(type_, Scalar), type_
    return type_
