"""Computed attributes: found by their path, and computed for a batch.

A batch gets one more column, a struct named `COMPUTED`, whose fields are the computed attributes by their text. So the
path of a computed attribute leads to its values as any path does (`base.columns`), and whoever reads attributes by path
(cells, patterns, attributes compared with each other) reads these as well.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from penstock.base.columns import descend
from penstock.language.calls import Path
from penstock.language.computing import as_operand, read_expression
from penstock.language.evaluator import Evaluator
from penstock.language.expressions import COMPUTED, Expression, fields_of
from penstock.language.operands import Operands
from penstock.language.schema import Attribute, Schema
from penstock.language.syntax import syntax


def find_attribute(schema: Schema, path: Path) -> Attribute | None:
    """The attribute at a path, computed or not; None if there is none.

    >>> schema = Schema.of({"price": "double", "size": "int"})
    >>> find_attribute(schema, (COMPUTED, "price * size")).type.kind
    <Kind.DOUBLE: 'double'>
    """
    return _computed(schema, path[1]) if path[0] == COMPUTED else schema.find(path)


@functools.lru_cache(maxsize=10_000)
def _computed(schema: Schema, text: str) -> Attribute:
    expression = read_expression(Operands(text, schema, {}), syntax(text))
    assert expression is not None, text
    found = as_operand(expression, (0, len(text)))
    assert isinstance(found, Attribute), text
    return found


def fields_of_attribute(attribute: Attribute) -> list[Attribute]:
    """The attributes of the event that an attribute is computed of; itself, if it isn't computed."""
    if attribute.computed is None:
        return [attribute]
    fields = dict.fromkeys(fields_of(attribute.computed))
    return [Attribute(field.path, field.type) for field in fields]


class ComputedColumns:
    """The computed attributes among some paths, each once."""

    def __init__(self, schema: Schema, paths: Iterable[Path]) -> None:
        texts = dict.fromkeys(path[1] for path in paths if path[0] == COMPUTED)
        self.attributes = tuple(_computed(schema, text) for text in texts)
        self._expressions: Mapping[str, Expression] = {
            a.path[1]: a.computed for a in self.attributes if a.computed is not None
        }

    def __bool__(self) -> bool:
        return bool(self.attributes)

    def event_paths(self) -> list[Path]:
        """The attributes of the event that they are computed of."""
        return [field.path for one in self._expressions.values() for field in fields_of(one)]

    def add_to(self, batch: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """The batch with its computed attributes, whose `now()` is the time given (UTC microseconds)."""
        if not self.attributes:
            return batch
        evaluator = Evaluator(batch, now)
        columns = [evaluator.column(one) for one in self._expressions.values()]
        struct = pa.StructArray.from_arrays(columns, names=list(self._expressions))
        return batch.append_column(COMPUTED, struct)


def columns_at(batch: pa.RecordBatch, paths: Iterable[Path]) -> pa.RecordBatch | None:
    """The columns of a batch that some paths lead into, and of `COMPUTED` only those fields; None if it has none."""
    computed = sorted({path[1] for path in paths if path[0] == COMPUTED})
    names = {path[0] for path in paths if path[0] != COMPUTED}.intersection(batch.schema.names)
    found = batch.select(sorted(names)) if names else None
    if not computed:
        return found
    columns = [descend(batch, (COMPUTED, text)) for text in computed]
    struct = pa.StructArray.from_arrays(columns, names=computed)
    if found is None:
        return pa.RecordBatch.from_arrays([struct], [COMPUTED])
    return found.append_column(COMPUTED, struct)


def event_columns(schema: Schema, paths: Sequence[Path]) -> set[str]:
    """The columns of the event that some paths need."""
    of_events = [path for path in paths if path[0] != COMPUTED]
    return {path[0] for path in [*of_events, *ComputedColumns(schema, paths).event_paths()]}
