"""Changes of single tuples, for tests: what a processor is given, and what its subscribers get, one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines.joins.subscribers import sent_messages
from penstock.joins.axes import row_keys
from penstock.joins.catalog import Catalog
from penstock.joins.changes import ChangeBatch
from penstock.joins.newcomers import table_contents
from penstock.joins.processor import Processor
from penstock.joins.subscription import SelectJoin


@dataclass(frozen=True)
class TupleChange:
    """What the tuple with some key is from now on.

    With a row, the tuple with the row's key is this row; with a key as well, it takes the place of the tuple with that.
    Without a row, there is no tuple with the key.
    """

    table: str
    row: dict[str, Any] | None = None
    key: tuple[Any, ...] | None = None


def batches(catalog: Catalog, changes: Iterable[TupleChange]) -> list[ChangeBatch]:
    """Changes in their order, those of one table that follow each other as one batch."""
    return [_batch(catalog, name, list(mine)) for name, mine in groupby(changes, lambda c: c.table)]


def _batch(catalog: Catalog, name: str, changes: list[TupleChange]) -> ChangeBatch:
    table, rows, deleted = catalog.tables[name], [], []
    schema = table.schema.to_arrow()
    for change in changes:
        old = None if change.key is None else dict(zip(table.key, change.key, strict=True))
        if change.row is not None:
            rows.append(change.row)
            deleted.append(False)
            if old is not None:
                new, before = row_keys(pa.RecordBatch.from_pylist([change.row, old], schema), table)
                old = None if new == before else old
        if old is not None:
            rows.append(old)
            deleted.append(True)
    return ChangeBatch(name, pa.RecordBatch.from_pylist(rows, schema), np.array(deleted))


def sent(processor: Processor, *changes: TupleChange) -> dict[int, list[Any]]:
    """Apply changes; what each subscriber gets."""
    return sent_messages(processor.process(batches(processor.catalog, changes)))


def subscribe(processor: Processor, sid: int, join: SelectJoin, make: Any = Processor) -> list[Any]:
    """Add a subscription; what its subscriber gets first, by way of a processor of its own, as on Spark."""
    processor.subscribe_all([(sid, join)])
    alone = make(processor.catalog, [(sid, join)])
    return sent_messages(alone.process(table_contents(processor.tables.values()))).get(sid, [])
