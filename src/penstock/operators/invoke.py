"""Calling operators on the rows of a batch: many invocations, few operators, one `desk` for each of them.

A breaker would be of little use if it forgot everything whenever a plan changes. So the breakers and threads of
operators are in one object for the whole process, which all invokers share: `Health`.
"""

import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from penstock.base.arrays import Int32s
from penstock.base.errors import OperatorError
from penstock.language.calls import Invocation, Path
from penstock.language.signatures import Signature, Signatures
from penstock.language.types import Type
from penstock.operators.answers import Answers
from penstock.operators.arguments import ArgumentColumn
from penstock.operators.breaker import Clock
from penstock.operators.define import Operators, resolve
from penstock.operators.desk import Desk, OperatorLine, OperatorStats, Prepared, Request
from penstock.operators.isolated import IsolatedOperator

__all__ = ["Health", "Invoker", "OperatorStats"]


class Health:
    """The breakers and threads of a process' operators, by name and source."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str, bool], OperatorLine] = {}
        self._lock = threading.Lock()

    def line(self, signature: Signature, isolate: bool = False) -> "OperatorLine":
        """The line to one operator, in this process or in one of its own."""
        key = signature.name.lower(), signature.source, isolate
        with self._lock:
            if key not in self._lines:
                isolated = IsolatedOperator(signature) if isolate else None
                self._lines[key] = OperatorLine(signature.name, self._clock, isolated)
            return self._lines[key]


class Invoker:
    """Evaluates the invocations of one plan.

    >>> import numpy as np
    >>> from penstock.language.calls import Fixed, Given
    >>> from penstock.operators.define import operator
    >>> @operator("longer")
    ... def longer(text: str, than: int) -> bool:
    ...     return len(text) > than
    >>> call = Invocation("longer", (Given(("name",)), Fixed(None, 3)))
    >>> invoker = Invoker([call], Operators(longer).signatures, Operators(longer))
    >>> batch = pa.RecordBatch.from_pylist([{"name": "Ann"}, {"name": "Robert"}, {"name": None}])
    >>> invoker.call(0, batch, np.arange(3, dtype=np.int32)).values.to_pylist()
    [False, True, None]
    """

    def __init__(
        self,
        invocations: Sequence[Invocation],
        signatures: Signatures,
        operators: Operators | None = None,
        *,
        health: Health | None = None,
    ) -> None:
        health = health or Health()
        self._desks: dict[str, Desk] = {}
        for name in dict.fromkeys(i.operator.lower() for i in invocations):
            signature = signatures.find(name)
            if signature is None:
                raise OperatorError(f"operator {name!r} isn't registered")
            found = resolve(signature, operators or Operators())
            line = health.line(signature, found.isolate)
            self._desks[name] = Desk(signature, found.function, line)
        self._invocations = [
            Prepared(i, self._desks[i.operator.lower()].signature) for i in invocations
        ]
        self._columns = _Columns()

    def call(self, number: int, batch: pa.RecordBatch, rows: Int32s) -> Answers:
        """Evaluate one invocation on some rows of a batch."""
        return self.calls(batch, [(number, rows)])[0]

    def calls(self, batch: pa.RecordBatch, wanted: Sequence[tuple[int, Int32s]]) -> list[Answers]:
        """Evaluate several invocations, each on some rows of a batch; those of one operator in one go."""
        asked = [self._ask(batch, number, rows.tolist()) for number, rows in wanted]
        by_desk: dict[Desk, list[Request]] = {}
        for one in asked:
            by_desk.setdefault(one.desk, []).append(one)
        for desk, mine in by_desk.items():
            with desk.line.lock:
                desk.answer(mine)
        return [one.answers() for one in asked]

    def _ask(self, batch: pa.RecordBatch, number: int, rows: list[int]) -> "Request":
        prepared = self._invocations[number]
        given = [
            (place, self._columns.find(batch, path, wanted))
            for place, path, wanted in prepared.attributes
        ]
        asked = rows
        if prepared.has_null:
            asked = []
        elif any(column.has_nulls for _, column in given):
            asked = [r for r in rows if not any(column.is_null(r) for _, column in given)]
        return Request(self._desks[prepared.operator], prepared, given, rows, asked)

    def stats(self) -> dict[str, OperatorStats]:
        """By operator."""
        return {desk.signature.name: desk.stats() for desk in self._desks.values()}


class _Columns(threading.local):
    """The columns of the batch at hand, found once for all invocations; each thread has a batch of its own."""

    def __init__(self) -> None:
        self._batch: pa.RecordBatch | None = None
        self._found: dict[tuple[Path, Type | None], ArgumentColumn] = {}

    def find(self, batch: pa.RecordBatch, path: Path, wanted: Type | None) -> ArgumentColumn:
        if self._batch is not batch:
            self._batch, self._found = batch, {}
        column = self._found.get((path, wanted))
        if column is None:
            column = self._found[path, wanted] = ArgumentColumn.of(batch, path, wanted)
        return column
