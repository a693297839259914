"""Computes what newcomers among subscribers must hold at first: what a processor that has only newcomers sends when it
is given all tuples of the tables."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from penstock.joins.changes import ChangeBatch
from penstock.joins.messages import TupleAdded
from penstock.joins.processor import Processor
from penstock.joins.semijoin_scheme import SemijoinSender
from penstock.joins.subscription import SelectJoin
from penstock.joins.table_state import TableState


def first_messages(
    processor: Processor, joins: Mapping[int, SelectJoin]
) -> dict[int, list[TupleAdded]]:
    """For each subscription the tuples that it must hold, each once. Reads all of the tables that they name."""
    alone = Processor(processor.catalog, joins, processor.decomposition)
    tables = dict.fromkeys(table for join in joins.values() for table in join.tables)
    notified = alone.process(table_contents(processor.tables[table] for table in tables))
    found: dict[int, dict[tuple[str, int], TupleAdded]] = {sid: {} for sid in joins}
    for part, readers in zip(notified.parts, notified.readers(), strict=True):
        sender = part.sender
        assert isinstance(sender, SemijoinSender)
        table, places = sender.base.name, part.messages.tuples.tolist()
        rows = sender.contents(part.messages).to_pylist()
        ids = notified.ids[readers.numbers].tolist()
        for at, sid in zip(readers.which().tolist(), ids, strict=True):
            found[sid][table, places[at]] = TupleAdded(table, rows[at])
    return {sid: list(mine.values()) for sid, mine in found.items()}


def table_contents(tables: Iterable[TableState]) -> list[ChangeBatch]:
    """The tuples of tables, as changes that insert them."""
    found = []
    for state in tables:
        rows = [row for place in state.places().tolist() if (row := state.rows[place]) is not None]
        schema = state.table.schema.to_arrow()
        columns = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(schema)]
        found.append(ChangeBatch(state.name, pa.RecordBatch.from_arrays(columns, schema=schema)))
    return found
