"""What a filter must know of an operator: its name, what it takes, what it answers. Not the function itself.

Signatures are data. They stand in the schema that filters are read under, travel in the header of a plan, and say by
`source` where a worker finds the function.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.language.types import Scalar, Type, from_json, to_json


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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "parameters": [None if t is None else to_json(t) for t in self.parameters],
            "result": None if self.result is None else to_json(self.result),
            "binds": [to_json(t) for t in self.binds],
            "source": self.source,
            "cost": self.cost,
            "timeout": self.timeout,
            "batch": self.batch,
        }

    @staticmethod
    def from_dict(value: dict[str, Any]) -> "Signature":
        """What `to_dict` gave."""
        return Signature(
            name=value["name"],
            parameters=tuple(None if t is None else from_json(t) for t in value["parameters"]),
            result=None if value["result"] is None else _scalar(value["result"]),
            binds=tuple(_scalar(t) for t in value["binds"]),
            source=value["source"],
            cost=value["cost"],
            timeout=value["timeout"],
            batch=value["batch"],
        )


@dataclass(frozen=True)
class Signatures:
    """The operators that filters may use, by name; names are compared without regard to case, as in SQL.

    >>> NO_OPERATORS.find("crowd") is None
    True
    """

    operators: tuple[Signature, ...] = ()

    @staticmethod
    def of(operators: Iterable[Signature]) -> "Signatures":
        """Sorted by name, so that the same operators are equal whatever order they were registered in."""
        return Signatures(tuple(sorted(operators, key=lambda s: s.name.lower())))

    def find(self, name: str) -> Signature | None:
        """The operator of this name."""
        return next((s for s in self.operators if s.name.lower() == name.lower()), None)

    def __iter__(self) -> Iterator[Signature]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def to_json(self) -> str:
        """Text that `from_json` reads."""
        return json.dumps([s.to_dict() for s in self.operators])

    @staticmethod
    def from_json(text: str) -> "Signatures":
        """Read what `to_json` wrote."""
        return Signatures(tuple(Signature.from_dict(value) for value in json.loads(text)))


NO_OPERATORS = Signatures()


def _scalar(value: Any) -> Scalar:
    type_ = from_json(value)
    assert isinstance(type_, Scalar), type_
    return type_
