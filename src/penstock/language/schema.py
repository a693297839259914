"""The schema of events: their attributes and the types of these.

A schema comes from Spark, from Arrow, or from a plain mapping; inside Penstock it is one small immutable tree.
`to_json` writes Spark's own JSON form, so that a stored schema can be read by either side. Spark itself is not
imported: its types are recognised by their method `jsonValue`.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.errors import SchemaError
from penstock.language.calls import Asked
from penstock.language.expressions import Expression
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.language.syntax import nearest_name
from penstock.language.types import (
    Struct,
    Type,
    Unusable,
    arrow_type,
    from_arrow,
    from_json,
    from_mapping,
    struct_of,
    to_json,
)

_REMEMBERED = 10_000  # paths that a schema has looked up

SchemaLike = Any  # Schema | pa.Schema | Spark StructType | Mapping[str, Any]: Spark's types can't be named here


@dataclass(frozen=True, slots=True)
class Attribute:
    """A path into the event, and the type found there."""

    path: tuple[str, ...]
    type: Type
    asked: Asked | None = None  # set if it is an operator's answer; then the path is only a name
    computed: Expression | None = None  # gives its values, if they aren't in the event

    @property
    def name(self) -> str:
        is_named = self.asked is not None or self.computed is not None
        return self.path[-1] if is_named else ".".join(self.path)


@dataclass(frozen=True)
class Schema:
    """The attributes of an event.

    >>> schema = Schema.of({"symbol": "string", "price": "double", "venue": {"country": "string"}})
    >>> schema.find(("venue", "country")).type.kind
    <Kind.STRING: 'string'>
    >>> print(schema)
    struct<symbol: string, price: double, venue: struct<country: string>>
    """

    root: Struct
    operators: Signatures = NO_OPERATORS

    @staticmethod
    def of(source: SchemaLike) -> "Schema":
        """Read a Spark `StructType`, an Arrow schema, or a mapping of names to type names or nested mappings."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, pa.Schema):
            return Schema(Struct(tuple((f.name, from_arrow(f.type)) for f in source)))
        if isinstance(source, Mapping):
            return Schema(from_mapping(source))
        if hasattr(source, "jsonValue"):
            return Schema(struct_of(from_json(source.jsonValue())))
        raise SchemaError(
            f"a schema can't be read from {type(source).__name__}: "
            "give a Spark StructType, an Arrow schema or a dict like {'price': 'double'}"
        )

    def with_operators(self, operators: Signatures) -> "Schema":
        """The same attributes, and operators that filters may call."""
        return Schema(self.root, operators)

    def to_json(self) -> str:
        """Spark's JSON form of the schema, without operators."""
        return json.dumps(to_json(self.root))

    @staticmethod
    def from_json(text: str) -> "Schema":
        """Read what `to_json` (or Spark) wrote."""
        try:
            return Schema(struct_of(from_json(json.loads(text))))
        except (ValueError, KeyError, TypeError) as error:
            raise SchemaError(f"not a schema in JSON: {error}") from error

    def to_arrow(self) -> pa.Schema:
        """The Arrow schema that events of this schema are built with; unusable columns are left out."""
        return pa.schema(
            [(n, arrow_type(t)) for n, t in self.root.fields if not isinstance(t, Unusable)]
        )

    def __str__(self) -> str:
        return str(self.root)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        # It hashes every field: 20 µs for twenty of them, and caches ask for it at each filter.
        return hash((self.root, self.operators))

    def find(self, path: tuple[str, ...]) -> Attribute | None:
        """The attribute at `path`: by its exact name, else by the only name that differs from it in case alone."""
        if path not in self._found:
            if len(self._found) > _REMEMBERED:
                self._found.clear()
            self._found[path] = self._find(path)
        return self._found[path]

    @functools.cached_property
    def _found(self) -> dict[tuple[str, ...], Attribute | None]:
        return {}

    def _find(self, path: tuple[str, ...]) -> Attribute | None:
        found: list[str] = []
        type_: Type = self.root
        for step in path:
            if not isinstance(type_, Struct):
                return None
            name = _pick(step, type_)
            if name is None:
                return None
            found.append(name)
            type_ = dict(type_.fields)[name]
        return Attribute(tuple(found), type_)

    def attributes(self) -> Iterator[Attribute]:
        """Every path that a filter can mention."""
        pending: list[Attribute] = [Attribute((n,), t) for n, t in self.root.fields]
        while pending:
            attribute = pending.pop()
            if isinstance(attribute.type, Struct):
                pending += [Attribute((*attribute.path, n), t) for n, t in attribute.type.fields]
            elif not isinstance(attribute.type, Unusable):
                yield attribute

    def suggestion(self, name: str) -> str | None:
        """The attribute whose name is nearest to a misspelt one."""
        return nearest_name(name, (a.name for a in self.attributes()))


def _pick(step: str, struct: Struct) -> str | None:
    names = [name for name, _ in struct.fields]
    if step in names:
        return step
    alike = [name for name in names if name.lower() == step.lower()]
    return alike[0] if len(alike) == 1 else None
