"""Decides when select-joins are decomposed anew: in the process that watches the registry, by what tasks see of tables.

    tuple stage   for each bucket it works on: how many tuples there are, how many changes came, and a few of them
    planner       adds that up to `joins.statistics`, in which new samples replace old ones, and decides

Subscriptions that are decomposed in another way must be sent everything again. So the planner adds up, change by
change, how much more the present statistics cost than the best ones. When that has reached the cost of the move, there
are new statistics. However soon tables change again, at most about twice as much is sent as necessary. Both costs are
estimates, in tuples sent, on a sample of the subscriptions.

    <snapshot folder>/statistics/<batch>/…    until they are gathered
    <snapshot folder>/statistics.json         what the planner knows, for its next start: some tables never change

If some of these files are lost or counted twice, new statistics come at another time. Their meaning doesn't depend on
the files: it is in the snapshot (`snapshots`).
"""

import logging
import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.checked_files import FileKind
from penstock.base.durable import delete_folder, replace_file
from penstock.base.errors import PipelineError
from penstock.base.labels import Key
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.joins.catalog import Catalog, Table
from penstock.joins.decompose import Decomposition
from penstock.joins.statistics import Statistics, key_of, plain_key
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.language.types import Scalar
from penstock.matching.domains import ByteStrings, key_column
from penstock.pipeline.joins.change_feed import DELETED
from penstock.pipeline.task_files import leave

log = logging.getLogger("penstock.pipeline")

STATISTICS = "statistics"
"""The folder, beside the snapshots, to which tasks write what they have seen."""

WINDOW = 1_000  # changes after which statistics are weighed
_EACH = 16  # changes of a bucket that are sampled
_SAMPLE = 512  # tuples of a table that are kept
_LONGEST = 32  # bytes of a key
_SUBSCRIPTIONS = 1_000  # whose costs are estimated, at most
_FADING = 0.5  # the weight of the last window's changes in the next one
_SEEN = FileKind({"seen": list}, PipelineError, "what it says isn't counted")

Sample = dict[str, list[int | str | None]]
"""By attribute, the keys of some tuples as JSON has them."""


# --- on workers ---------------------------------------------------------------------------------


def sample_changes(changes: pa.RecordBatch, table: Table) -> Sample:
    """A few of the tuples that changes put, evenly spread."""
    come = changes.filter(pc.invert(changes.column(DELETED)))
    step = -(-come.num_rows // _EACH) or 1
    some = come.take(pa.array(range(0, come.num_rows, step), pa.int64()))
    return {
        name: _plain_keys(some.column(name), type_, name)
        for name, type_ in table.schema.root.fields
        if isinstance(type_, Scalar)
    }


def _plain_keys(column: pa.Array, type_: Scalar, name: str) -> list[int | str | None]:
    keys, valid = key_column(column, type_, name)
    found: list[int | str | None]
    if isinstance(keys, ByteStrings):
        data, ends = keys.data.tobytes(), keys.offsets.tolist()
        found = [data[a : min(b, a + _LONGEST)].hex() for a, b in pairwise(ends)]
    else:
        found = keys.tolist()
    return [k if v else None for k, v in zip(found, valid, strict=True)] if len(valid) else found


def leave_seen(home: AnyPath, seen: Sequence[Mapping[str, Any]]) -> None:
    """Write down what a task has seen: of each bucket its table, number, tuples, changes and sample."""
    leave(home / STATISTICS, "seen.json", _SEEN.to_text({"seen": list(seen)}))


# --- where the registry is open -----------------------------------------------------------------


class Planner:
    """Keeps statistics of the tables, and decides when select-joins are to be decomposed by new ones."""

    def __init__(self, catalog: Catalog, home: AnyPath) -> None:
        self._catalog, self._home = catalog, home
        self._tuples: dict[tuple[str, int], int] = {}  # by table and bucket
        self._changes: Counter[str] = Counter()  # by table; earlier ones count less
        self._rows: dict[str, deque[dict[str, Key | None]]] = {}  # the last samples, by table
        self._since = 0  # changes since statistics were weighed
        self._regret = 0.0  # how much more the present statistics have cost than the best ones
        if self._kept.exists():
            self._read(self._kept)

    @property
    def _kept(self) -> AnyPath:
        return self._home / f"{STATISTICS}.json"

    def gather(self) -> None:
        """Add what tasks have written."""
        for of_batch in paths_in(self._home / STATISTICS, "*"):
            for path in paths_in(of_batch, "*.json"):
                self._read(path)
            delete_folder(of_batch)

    def _read(self, path: AnyPath) -> None:
        try:
            self._add(_SEEN.read(path)["seen"])
        except (PipelineError, OSError) as error:
            log.warning("%s", error)

    def _keep(self) -> None:
        """Write down what is known, in the same form as tasks do."""
        seen = []
        left = {
            table: {
                name: [None if (k := row[name]) is None else plain_key(k) for row in rows]
                for name in rows[0]
            }
            for table, rows in self._rows.items()
            if rows
        }
        for (table, bucket), tuples in self._tuples.items():
            one = {"table": table, "bucket": bucket, "tuples": tuples, "changes": 0}
            seen.append({**one, "sample": left.pop(table, {})})
        try:
            replace_file(self._kept, _SEEN.to_text({"seen": seen}))
        except OSError as error:
            log.warning("can't write %s: %s", self._kept, error.strerror or error)

    def _add(self, seen: Iterable[Mapping[str, Any]]) -> None:
        for one in seen:
            table, sample = one["table"], one["sample"]
            self._tuples[table, one["bucket"]] = one["tuples"]
            self._changes[table] += one["changes"]
            self._since += one["changes"]
            rows = self._rows.setdefault(table, deque(maxlen=_SAMPLE))
            for values in zip(*sample.values(), strict=True):
                keys = [None if v is None else key_of(v) for v in values]
                rows.append(dict(zip(sample, keys, strict=True)))

    def statistics(self) -> Statistics:
        """The statistics of the tables as they are now. A payload has those of its table."""
        tuples: Counter[str] = Counter()
        for (table, _), count in self._tuples.items():
            tuples[table] += count
        total = sum(self._changes.values()) or 1
        found: dict[str, int] = {}
        rates: dict[str, float] = {}
        for name, _ in self._catalog.declared:
            for part, _ in self._catalog.parts(name, {}):
                found[part], rates[part] = tuples[name], self._changes[name] / total
        keys = {
            (table, attribute): tuple(
                sorted(k for row in rows if (k := row[attribute]) is not None)
            )
            for table, rows in self._rows.items()
            if rows
            for attribute in rows[0]
        }
        joining = {edge: self._joining(edge) for edge in self._catalog.edges}
        return Statistics(found, rates, keys, joining)

    def _joining(self, edge: JoinEdge) -> float:
        """The share of pairs of sampled tuples that join."""
        left, right = zip(*edge.attributes, strict=True)
        counts = [
            Counter(tuple(row[a] for a in attributes) for row in self._rows.get(table, ()))
            for table, attributes in ((edge.left, left), (edge.right, right))
        ]
        pairs = counts[0].total() * counts[1].total()
        met = sum(n * counts[1][key] for key, n in counts[0].items() if None not in key)
        return met / pairs if pairs else 0.0

    def new_statistics(
        self,
        present: Statistics | None,
        ids: Collection[int],
        joins: Callable[[Iterable[int]], Mapping[int, SelectJoin]],
    ) -> Statistics | None:
        """New statistics that are worth the move; None: the present ones stay. It decides after each window.

        `joins` returns the select-joins of some of the subscriptions.
        """
        if self._since < WINDOW:
            return None
        seen = self.statistics()
        self._keep()
        if len(ids) > _SUBSCRIPTIONS:
            ids = random.Random(0).sample(sorted(ids), _SUBSCRIPTIONS)
        now, then = Decomposition(statistics=present), Decomposition(statistics=seen)
        move = 0.0
        for join in joins(ids).values():
            if now.decision(join) != then.decision(join):
                (costs, _), (would_cost, held) = (d.estimate(join, seen) for d in (now, then))
                self._regret += (costs - would_cost) * self._since
                move += held
        self._since, self._regret = 0, max(0.0, self._regret)
        for table in self._changes:
            self._changes[table] = int(self._changes[table] * _FADING)
        return seen if 0 < move < self._regret else None

    def begin(self) -> None:
        """New statistics are published: begin to add up anew."""
        self._regret = 0.0
