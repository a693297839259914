"""Changes of tables: each says what the tuple with some key is from now on.

A change says what a tuple *is*, not what was done to it, so the same change twice is the same as once. Changes are
applied in the order in which they come: their sender drops late ones first (`pipeline.joins.tuple_stage`).
"""

from dataclasses import dataclass

import pyarrow as pa

from penstock.base.arrays import Bools

PUTS = (
    "insert", "i", "c", "create", "r", "read", "append", "update", "u", "upsert", "update_postimage", "+i", "+u"
)  # fmt: skip
DELETES = ("delete", "d", "-d")
IGNORED = ("update_preimage", "-u")
OPERATIONS = (*PUTS, *DELETES, *IGNORED)
"""What was done to a tuple, in the words of change feeds, whatever their case. Rows that say what a tuple was before
are ignored."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Many changes of one table: rows as Arrow. A row that is `deleted` needs no more than its key."""

    table: str
    rows: pa.RecordBatch
    deleted: Bools | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)
