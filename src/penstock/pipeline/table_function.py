"""`register`: matching as a table function of SQL, `SELECT * FROM penstock_match(TABLE(events))`.

    SQL ──▶ analyze, in a Python process on the driver ──▶ columns of the result, and work for a pinned snapshot
        └─▶ eval, on the workers: an Arrow batch of events in, the same with their subscriptions out

Spark calls `analyze` whenever it analyses a query, and it analyses a view with each query of it. So a query sees the
subscriptions of its moment. A registry can't be pickled, so the process opens it by its URL.

Spark has table functions of rows and of Arrow batches; those of rows take many times longer. Those of rows may have an
`analyze`, but the decorator `arrow_udtf` doesn't allow one (SPARK-53286). Spark itself would run such a function. So it
is made by `udtf`, and then declared to take Arrow batches.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult
from pyspark.util import PythonEvalType

from penstock.base.durations import utc_now
from penstock.base.errors import PenstockError, PipelineError
from penstock.base.locations import path_of
from penstock.language import Schema
from penstock.language.signatures import Signatures
from penstock.matching import SnapshotRef
from penstock.operators.define import Operators, OperatorsLike
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.frames import check_columns, operators_of, pin, scratch_folder
from penstock.pipeline.match_work import Form, MatchWork, added_columns
from penstock.pipeline.session import is_connect
from penstock.registry import Subscriptions


def register(
    spark: SparkSession,
    subscriptions: Subscriptions | SnapshotRef,
    name: str = "penstock_match",
    *,
    strategy: str = DEFAULT_STRATEGY,
    snapshots: str | Path | None = None,
    operators: OperatorsLike = None,
) -> None:
    """Make `match` a table function of a session's SQL: `SELECT * FROM penstock_match(TABLE(events))`.

    Its rows are those of `match`, with `explode => true` or `failures => true` as there. A query sees the
    subscriptions of the moment in which it is analysed, and so does each query of a view; those of a `SnapshotRef`
    never change. A registry must be one that `Subscriptions.open` opened: a process of Spark's on the driver's machine,
    or on that of a Connect server, opens it by its URL. `snapshots` and the others are as in `match`.
    """
    check_strategy(strategy)
    known = operators_of(subscriptions) if operators is None else Operators.of(operators)
    known.portable()
    if isinstance(subscriptions, SnapshotRef):
        source: str | SnapshotRef = subscriptions
        folder = path_of(subscriptions.path)
    elif subscriptions.url is None:
        raise PipelineError(
            "a process of Spark's analyses SQL, which can't see a registry in memory: open one by URL "
            "(penstock.Subscriptions.open), or register a snapshot (subs.snapshot(schema, folder).ref)"
        )
    else:
        source = subscriptions.url
        folder = scratch_folder(subscriptions) if snapshots is None else path_of(snapshots)
    named = _Matching(source, str(folder.absolute()), known.signatures, strategy)

    class Function(_TableFunction):
        analyze = staticmethod(named.analyze)

    spark.udtf.register(name, _arrow_function(Function, is_connect(spark)))


def _arrow_function(function: type, connect: bool) -> Any:
    """A table function that takes Arrow batches and has an `analyze`."""
    functions = import_module(f"pyspark.sql.{'connect.' if connect else ''}functions")
    made = functions.udtf(function, useArrow=False)
    made.evalType = PythonEvalType.SQL_ARROW_UDTF
    return made


@dataclass
class _Analyzed(AnalyzeResult):
    """What `analyze` returns: the columns, and the work that workers are given."""

    work: MatchWork | None = None


@dataclass(frozen=True)
class _Matching:
    """What was registered: where the subscriptions are, and how they are matched."""

    source: str | SnapshotRef
    snapshots: str
    operators: Signatures
    strategy: str

    def analyze(
        self,
        events: AnalyzeArgument,
        explode: AnalyzeArgument | None = None,
        failures: AnalyzeArgument | None = None,
    ) -> AnalyzeResult:
        """The columns of the result, and the work of this moment."""
        try:
            form = Form.PAIRS if _flag("explode", explode) else Form.LISTS
            return self._analyzed(_columns(events), form, _flag("failures", failures))
        except PenstockError:
            # Without this Spark shows users the traceback of an error. The process ends with the error, so nothing else
            # sees the setting.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise

    def _analyzed(self, schema: StructType, form: Form, failures: bool) -> AnalyzeResult:
        added = added_columns(form, failures)
        check_columns(schema, added)
        work = MatchWork(
            self._pinned(Schema.of(schema)),
            utc_now(),
            form,
            "auto",
            self.operators,
            strategy=self.strategy,
            failures=failures,
        )
        return _Analyzed(StructType([*schema.fields, *added]), work=work)

    def _pinned(self, schema: Schema) -> SnapshotRef:
        if isinstance(self.source, SnapshotRef):
            return self.source
        # The registry isn't closed here: a compaction in the background may still use it.
        registry = Subscriptions.open(self.source, create=False)
        return pin(registry, schema, self.operators, self.snapshots, "auto")


def _columns(events: AnalyzeArgument) -> StructType:
    if events.isTable and isinstance(events.dataType, StructType):
        return events.dataType
    raise PipelineError(
        f"events is a {events.dataType.simpleString()}, and must be a table: "
        "penstock_match(TABLE(events)), or of a query, penstock_match(TABLE(SELECT …))"
    )


def _flag(name: str, argument: AnalyzeArgument | None) -> bool:
    if argument is None:
        return False
    if isinstance(argument.dataType, BooleanType) and argument.value is not None:
        return bool(argument.value)
    raise PipelineError(f"{name} is true or false, for example {name} => true")


class _TableFunction:
    """On a worker: one task's share of the events."""

    def __init__(self, analyzed: _Analyzed) -> None:
        assert analyzed.work is not None, "as `analyze` has made it"
        self._work = analyzed.work

    def eval(
        self, events: pa.RecordBatch, explode: Any = None, failures: Any = None
    ) -> Iterable[pa.RecordBatch]:
        """The rows of a batch of events; the flags have been dealt with by `analyze`."""
        return self._work.run([events])
