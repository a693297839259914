"""`match`: adds to each event of a DataFrame the subscriptions that it matches.

The driver pins one snapshot of the subscriptions; workers match the events against it (`match_work`).
"""

import hashlib
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from penstock.base.durations import utc_now
from penstock.base.errors import PipelineError, SchemaError, SubscriptionErrors
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.language import Schema
from penstock.language.signatures import Signatures
from penstock.matching import SnapshotRef, SnapshotStore
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.operators.define import Operators, OperatorsLike
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.feedback import gather_learned
from penstock.pipeline.match_work import Form, MatchWork, added_columns, match_rows
from penstock.pipeline.task_files import make_scratch


def match(
    df: DataFrame,
    subscriptions: SubscriptionSource | SnapshotRef,
    *,
    explode: bool = False,
    engine: str = "auto",
    strategy: str = DEFAULT_STRATEGY,
    failures: bool = False,
    snapshots: str | Path | None = None,
    operators: OperatorsLike = None,
) -> DataFrame:
    """Add to each event the subscriptions that it matches.

    Gives a column `subscriptions: array<bigint>`, sorted; with `explode`, one row per pair of event and subscription,
    with `subscription: bigint` and `subscriber: string`, and no row for an event that matches nothing.

    The subscriptions are those of this moment: one snapshot is pinned when `match` is called, for a streaming
    DataFrame too (a `Pipeline` follows changes). Leases are compared with the time of the call in a batch, with the
    clock in a stream. `snapshots` is the folder where the snapshot is written, or a URI (`s3://bucket/folder`). On a
    cluster every worker must be able to read it; by default it is a temporary folder of this machine.

    `operators` are those that filters may call, by default those of the registry; for a snapshot the default is none.
    `strategy` is the order in which they are called. If an operator fails on an event, subscriptions that need it are
    left out. With `failures`, a column `operator_failures: array<string>` says which operators failed, and why.

    Raises `SubscriptionErrors` with every subscription that doesn't fit the schema of the events.
    """
    known = operators_of(subscriptions) if operators is None else Operators.of(operators)
    options = MatchOptions(explode, engine, strategy, failures, known)
    return run_plan(df, plan_match(df, subscriptions, options, snapshots))


def run_plan(df: DataFrame, work: MatchWork) -> DataFrame:
    """The events of a frame with what workers add to them."""
    return match_rows(df, work).frame()


@dataclass(frozen=True)
class MatchOptions:
    """How events are matched, and what comes out; `match` explains each option."""

    explode: bool
    engine: str
    strategy: str
    failures: bool
    operators: Operators


def plan_match(
    df: DataFrame,
    subscriptions: SubscriptionSource | SnapshotRef,
    options: MatchOptions,
    snapshots: str | Path | None = None,
) -> MatchWork:
    """The work for the events of a frame, with all options checked."""
    schema = df.schema
    form = Form.PAIRS if options.explode else Form.LISTS
    check_columns(schema, added_columns(form, options.failures))
    check_strategy(options.strategy)
    options.operators.portable()
    signatures = options.operators.signatures
    if isinstance(subscriptions, SnapshotRef):
        ref = subscriptions
    else:
        ref = pin(subscriptions, Schema.of(schema), signatures, snapshots, options.engine)
    return MatchWork(
        ref,
        None if df.isStreaming else utc_now(),
        form,
        options.engine,
        signatures,
        strategy=options.strategy,
        failures=options.failures,
    )


def check_columns(schema: StructType, added: Iterable[StructField]) -> None:
    """Refuse events whose columns clash with those to be added, or that Spark can't hand to Python."""
    names = [field.name.lower() for field in schema.fields]
    problems = [
        f"the events have a column {field.name!r} already, which Penstock adds: rename it "
        f"(df.withColumnRenamed({field.name!r}, …))"
        for field in added
        if field.name.lower() in names
    ]
    problems += [
        f"the events have two columns named {name!r}: rename one"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    problems += filter(None, (_arrow_problem(field) for field in schema.fields))
    if problems:
        raise SchemaError("; ".join(problems))


def _arrow_problem(field: StructField) -> str | None:
    if _is_carried(field.dataType):
        return None
    return (
        f"column {field.name!r} is of type {field.dataType.simpleString()}, which Spark can't hand to Python "
        "workers: drop it, or cast it to string"
    )


def _is_carried(type_: DataType) -> bool:
    match type_:
        case StructType():
            return all(_is_carried(field.dataType) for field in type_.fields)
        case ArrayType():
            return _is_carried(type_.elementType)
        case MapType():
            return _is_carried(type_.keyType) and _is_carried(type_.valueType)
    return not isinstance(type_, CalendarIntervalType | YearMonthIntervalType)


# --- on the driver ------------------------------------------------------------------------------

_scratch: dict[str, Path] = {}  # by the identity of a registry
_scratch_lock = threading.Lock()


def pin(
    source: SubscriptionSource,
    schema: Schema,
    operators: Signatures,
    folder: str | Path | None,
    engine: str,
) -> SnapshotRef:
    """Publish a snapshot of this moment. Raises SubscriptionErrors with all subscriptions that don't fit the schema."""
    if not isinstance(source, SubscriptionSource):
        raise PipelineError(
            f"subscriptions can't be read from {type(source).__name__}: give a penstock.Subscriptions"
        )
    schema = schema.with_operators(operators)
    root = scratch_folder(source) if folder is None else path_of(folder)
    store = snapshot_store(root, source, schema, engine)
    gather_learned(store)
    ref, errors = store.publish(source, schema)
    if errors:
        raise SubscriptionErrors(errors)
    return ref


def snapshot_store(
    root: AnyPath, source: SubscriptionSource, schema: Schema, engine: str
) -> SnapshotStore:
    """The store under `root` for one registry and one schema: snapshots of different ones don't share a folder."""
    named = f"{source.identity}\n{schema.to_json()}"
    if schema.operators:
        named += f"\n{json.dumps(schema.operators.interface())}"
    return SnapshotStore(root / hashlib.sha256(named.encode()).hexdigest()[:16], engine)


def operators_of(source: Any) -> Operators:
    """The operators that a registry was given; none if the registry is named by its URL."""
    return Operators.of(getattr(source, "operators", None))


def scratch_folder(source: SubscriptionSource) -> Path:
    """One temporary folder per registry, so that a second `match` finds the snapshot of the first."""
    with _scratch_lock:
        if source.identity not in _scratch:
            _scratch[source.identity] = make_scratch("penstock-snapshots-")
        return _scratch[source.identity]
