"""A view's tuples in Arrow, and the part of them that its subscriber gets (delta §4.1).

    document | n0 | n1 | n1_val | n2 | n2_cont        a row per embedding, sorted by document, n0, n1, …; no two equal

The tuples have the IDs of all nodes, because other views are made from them. A subscriber gets the document and the
annotated columns alone, once for each combination of annotated nodes.
"""

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.views.tree_pattern import Returns, TreePattern


def id_column(place: int) -> str:
    """The column with the ID of the pattern's node at this place."""
    return f"n{place}"


def val_column(place: int) -> str:
    """The column with the value of that node."""
    return f"n{place}_val"


def cont_column(place: int) -> str:
    """The column with the content of that node."""
    return f"n{place}_cont"


def tuple_schema(pattern: TreePattern) -> pa.Schema:
    """The columns of a pattern's tuples.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> tuple_schema(parse_pattern("//a/b{val}")).names
    ['document', 'n0', 'n1', 'n1_val']
    """
    fields = [pa.field("document", pa.int64(), nullable=False)]
    for place, node in enumerate(pattern.nodes):
        fields.append(pa.field(id_column(place), pa.int64(), nullable=False))
        if Returns.VAL in node.returns:
            fields.append(pa.field(val_column(place), pa.string()))
        if Returns.CONT in node.returns:
            fields.append(pa.field(cont_column(place), pa.string()))
    return pa.schema(fields)


def delivery_schema(pattern: TreePattern) -> pa.Schema:
    """The columns that a subscriber gets."""
    schema = tuple_schema(pattern)
    hidden = {id_column(p) for p, n in enumerate(pattern.nodes) if Returns.ID not in n.returns}
    return pa.schema([field for field in schema if field.name not in hidden])


def tuples_to_deliver(pattern: TreePattern, tuples: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that a subscriber gets of a pattern's tuples, sorted by document and annotated nodes.

    Two nodes with the same value are two rows, whether their IDs are asked for or not. A pattern that asks for nothing
    delivers the documents that match.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> columns = {"document": [7, 7, 7], "n0": [1, 1, 1], "n1": [2, 2, 3], "n1_val": ["x", "x", "x"], "n2": [4, 5, 4]}
    >>> tuples_to_deliver(parse_pattern("//a[b{val}]/c"), pa.RecordBatch.from_pydict(columns)).to_pydict()
    {'document': [7, 7], 'n1_val': ['x', 'x']}
    """
    annotated = [id_column(p) for p, node in enumerate(pattern.nodes) if node.returns]
    keys = [_numbers(tuples, name) for name in ["document", *annotated]]
    rows = _first_of_each(keys)
    schema = delivery_schema(pattern)
    kept = tuples.select(schema.names)
    if rows is not None:
        kept = kept.take(pa.array(rows))
    return pa.RecordBatch.from_arrays(kept.columns, schema=schema)


def _numbers(tuples: pa.RecordBatch, name: str) -> Int64s:
    numbers: Int64s = tuples.column(name).to_numpy()
    return numbers


def _first_of_each(keys: list[Int64s]) -> Int64s | None:
    """The rows where a new combination of keys begins, in the order of the keys; None if all rows stay."""
    if len(keys[0]) < 2:
        return None
    fresh = np.zeros(len(keys[0]) - 1, np.bool_)
    falls = np.zeros(len(keys[0]) - 1, np.bool_)
    for key in keys:
        falls |= ~fresh & (key[1:] < key[:-1])
        fresh |= key[1:] != key[:-1]
    if not falls.any():
        # The rows are in order already, as they are whenever the annotated nodes come first in the pattern.
        return None if fresh.all() else np.flatnonzero(np.concatenate([[True], fresh]))
    order = np.lexsort(keys[::-1])
    fresh[:] = False
    for key in keys:
        moved = key[order]
        fresh |= moved[1:] != moved[:-1]
    rows: Int64s = order[np.concatenate([[True], fresh])]
    return rows
