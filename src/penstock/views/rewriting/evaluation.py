"""Runs a rewriting: tuples of its inputs in, tuples of the view out (delta §4.1). It is pure, so it can run anywhere.

    inputs ──▶ each step's rows that pass its filters ──▶ joined, step by step, as row numbers ──▶ checked ──▶ columns

Joins compare only IDs; for each step there is an array of row numbers of its input, all of one length. Columns are
taken once at the end: texts are copied only for rows of the result. Many documents are dealt with at once, and joins
never leave a document. A rewriting that only picks columns copies nothing. `ColumnTooLarge` if texts have more bytes
than one column can have.

The result is sorted by document and IDs, and no two rows are equal, as the inputs are (`planning` says why).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import PenstockError
from penstock.views.comparisons import holds, holds_each
from penstock.views.rewriting.content_values import values_in
from penstock.views.rewriting.id_joins import (
    Pairs,
    are_below,
    are_outermost,
    nodes_below,
    rows_in_order,
    same_document,
    same_nodes,
)
from penstock.views.rewriting.rewriting_plan import (
    BELOW,
    CHILD,
    CONT,
    FIRST,
    OUTERMOST,
    SAME,
    TEXT,
    VAL,
    Check,
    PlanColumn,
    PlanStep,
    RewritingPlan,
)
from penstock.views.text_columns import check_column, text_lengths
from penstock.views.tree_pattern import PatternNode, Returns, TreePattern
from penstock.views.tuples import cont_column, id_column, tuple_schema, val_column

MOST_ROWS = 50_000_000
"""The most rows of a join's result: more would not fit into memory."""


def evaluate(plan: RewritingPlan, inputs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The tuples of a view from those of its inputs, which are in the order in which the plan numbers them."""
    picked = _columns_only(plan)
    if picked is not None:
        return _pick(picked, inputs[plan.steps[0].input], plan)
    sources = []
    for step in plan.steps:
        source = _Source(step, inputs[step.input])
        if source.is_empty:
            return _nothing(plan.returns)
        sources.append(source)
    joined = _Joined(sources)
    for place, step in enumerate(plan.steps):
        joined.add(place, step)
    return joined.result(plan)


# --- columns alone -------------------------------------------------------------------------------


@lru_cache(maxsize=16_384)
def _columns_only(plan: RewritingPlan) -> tuple[str, ...] | None:
    """The input's columns that are the view's, one by one; None if there is more to do than pick them."""
    if not _keeps_order(plan) or plan.steps[0].within or plan.steps[0].filters:
        return None
    if any(c.source != VAL for c in plan.vals):
        return None
    vals = {c.node: val_column(c.place) for c in plan.vals}
    conts = {c.node: cont_column(c.place) for c in plan.conts}
    names = ["document"]
    for n in range(len(plan.returns)):
        names += [id_column(n), *(known[n] for known in (vals, conts) if n in known)]
    return tuple(names)


def _keeps_order(plan: RewritingPlan) -> bool:
    """Whether the view's nodes are those of a single input, in their order: then rows are sorted."""
    return len(plan.steps) == 1 and plan.steps[0].images == tuple(range(len(plan.returns)))


def _pick(names: tuple[str, ...], batch: pa.RecordBatch, plan: RewritingPlan) -> pa.RecordBatch:
    columns = [batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(plan.returns))


@lru_cache(maxsize=16_384)
def _schema(returns: tuple[int, ...]) -> pa.Schema:
    nodes = tuple(PatternNode("*", -1, returns=Returns(found)) for found in returns)
    return tuple_schema(TreePattern(nodes))


@lru_cache(maxsize=16_384)
def _nothing(returns: tuple[int, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=_schema(returns))


# --- joins ---------------------------------------------------------------------------------------


class _Source:
    """The input of a step: its columns, and in `rows` the rows that pass, or None if all do."""

    def __init__(self, step: PlanStep, batch: pa.RecordBatch) -> None:
        self.batch = batch
        names = ["document", *(id_column(m) for m in range(len(step.images)))]
        self.document, *self.nodes = (batch.column(name).to_numpy() for name in names)
        self.rows: Int64s | None = None
        for check in step.within:
            self._keep(_holds(check, self.nodes[check.upper], self.nodes[check.lower]))
        for found in step.filters:
            if found.source == TEXT:
                held = np.full(len(batch), holds(found.value, found.text))
            else:
                held = holds_each(found.value, self.values(found.node, found.source))
            self._keep(held)

    @property
    def is_empty(self) -> bool:
        """Whether no row passes."""
        return len(self.document if self.rows is None else self.rows) == 0

    def values(self, node: int, source: str) -> pa.Array:
        """The value of a node in each row, from its column or from its content."""
        if source == VAL:
            return self.batch.column(val_column(node))
        return values_in(self.batch.column(cont_column(node)))

    def _keep(self, held: Bools) -> None:
        if self.rows is None:
            if not held.all():
                self.rows = np.flatnonzero(held)
        else:
            self.rows = self.rows[held[self.rows]]


def _holds(check: Check, upper: Int64s, lower: Int64s) -> Bools:
    if check.kind == SAME:
        same: Bools = upper == lower
        return same
    if check.kind == OUTERMOST:
        return are_outermost(lower)
    return are_below(upper, lower, check.kind == CHILD)


def _as_arrow(column: Int64s) -> pa.Array:
    """The column itself, without the time that `pa.array` takes to find its type."""
    buffer = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.int64(), len(column), [None, buffer])


def _picked(column: Int64s, rows: Int64s | None) -> Int64s:
    return column if rows is None else column[rows]


class _Joined:
    """The steps joined so far: the rows of each, and for each of the view's nodes a step that has it."""

    def __init__(self, sources: Sequence[_Source]) -> None:
        self.sources = sources
        self.rows: list[Int64s | None] = []
        self.read_from: dict[int, tuple[int, int]] = {}

    def add(self, place: int, step: PlanStep) -> None:
        """Join one more step."""
        source = self.sources[place]
        if step.join == FIRST:
            self.rows.append(source.rows)
        else:
            left, right = self._pairs(step, source)
            if len(left) > MOST_ROWS:
                raise PenstockError(
                    f"more than {MOST_ROWS:,} rows when {step.join!r} is joined: evaluate fewer documents at once"
                )
            self.rows = [left if rows is None else rows[left] for rows in self.rows]
            self.rows.append(right if source.rows is None else source.rows[right])
        for m, n in enumerate(step.images):
            self.read_from.setdefault(n, (place, m))
        for check in step.checks:
            self._keep(_holds(check, self._nodes(check.upper), self._nodes(check.lower)))

    def _pairs(self, step: PlanStep, source: _Source) -> Pairs:
        document = _picked(source.document, source.rows)
        if step.join == SAME:
            left = [self._documents(), *(self._nodes(n) for n in step.on)]
            own = [source.nodes[step.images.index(n)] for n in step.on]
            right = [document, *(_picked(nodes, source.rows) for nodes in own)]
            return same_nodes(np.stack(left), np.stack(right), MOST_ROWS)
        if step.join in (CHILD, BELOW):
            upper, lower = step.on
            child = step.join == CHILD
            if lower in step.images:
                nodes = _picked(source.nodes[step.images.index(lower)], source.rows)
                above = self._documents(), self._nodes(upper)
                return nodes_below(*above, document, nodes, child, MOST_ROWS)
            nodes = _picked(source.nodes[step.images.index(upper)], source.rows)
            below = self._documents(), self._nodes(lower)
            right_rows, left_rows = nodes_below(document, nodes, *below, child, MOST_ROWS)
            return left_rows, right_rows
        return same_document(self._documents(), document, MOST_ROWS)

    def _documents(self) -> Int64s:
        return _picked(self.sources[0].document, self.rows[0])

    def _nodes(self, n: int) -> Int64s:
        step, m = self.read_from[n]
        return _picked(self.sources[step].nodes[m], self.rows[step])

    def _keep(self, held: Bools) -> None:
        if not held.all():
            kept = np.flatnonzero(held)
            self.rows = [kept if rows is None else rows[kept] for rows in self.rows]

    # --- columns -----------------------------------------------------------------------------

    def result(self, plan: RewritingPlan) -> pa.RecordBatch:
        """The view's tuples, sorted."""
        columns = [self._documents(), *map(self._nodes, range(len(plan.returns)))]
        if not _keeps_order(plan):
            together = np.stack(columns)
            if not rows_in_order(together):
                order = np.lexsort(together[::-1])
                columns = list(together[:, order])
                self.rows = [order if rows is None else rows[order] for rows in self.rows]
        vals = {column.node: column for column in plan.vals}
        conts = {column.node: column for column in plan.conts}
        arrays = [_as_arrow(columns[0])]
        for n in range(len(plan.returns)):
            arrays.append(_as_arrow(columns[n + 1]))
            if n in vals:
                arrays.append(self._texts(vals[n], VAL))
            if n in conts:
                arrays.append(self._texts(conts[n], CONT))
        return pa.RecordBatch.from_arrays(arrays, schema=_schema(plan.returns))

    def _texts(self, column: PlanColumn, wanted: str) -> pa.Array:
        """The texts of a column. Values are looked for only in the content of rows of the result."""
        rows = self.rows[column.step]
        source = self.sources[column.step]
        if column.source == TEXT:
            length = len(source.document) if rows is None else len(rows)
            check_column(length * len(column.text.encode()))
            return pa.repeat(pa.scalar(column.text), length)
        name = val_column if column.source == VAL else cont_column
        found = source.batch.column(name(column.place))
        if rows is not None:
            check_column(int(text_lengths(found)[rows].sum()))
            found = found.take(pa.array(rows))
        return values_in(found) if column.source != wanted else found
