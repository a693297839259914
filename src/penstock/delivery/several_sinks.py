"""Several sinks at once: each gets the notifications that fit its condition.

    notifications ──▶ kept ─┬──▶ sink.0
                            └──▶ sink.1    those of some kinds, or for some subscribers

A micro-batch is matched once: its rows are kept, in Spark's cache, until the last sink has them. If only one sink takes
the micro-batch, nothing is kept.

Sinks are written to one after the other, and each keeps its own guarantee. After a crash between two of them the replay
goes to both, and a sink that guarantees exactly once skips a micro-batch that it has already. Together they guarantee
what the weakest of them does.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.error_causes import cause
from penstock.base.errors import PipelineError
from penstock.base.locations import is_remote, local_path
from penstock.base.sql_names import quote_name
from penstock.delivery.addressed_readers import METADATA
from penstock.delivery.notification_shape import DIGEST, READER, READERS, explode
from penstock.delivery.sinks import AT_LEAST_ONCE, EXACTLY_ONCE, Batch, Sink
from penstock.registry.kinds import KINDS

_ALL = "*"
_FITTING = "_fitting"  # a column of our own


@dataclass(frozen=True)
class SinkWhen:
    """A sink that gets only some notifications: those of the kinds that `kind` names (of all kinds if it is empty), for
    subscribers whose names fit the pattern `subscriber`, in which `*` is any text and `?` any character.
    """

    sink: Sink
    kind: Sequence[str] = ()
    subscriber: str = _ALL

    def __post_init__(self) -> None:
        kinds = (self.kind,) if isinstance(self.kind, str) else tuple(self.kind)
        object.__setattr__(self, "kind", kinds)
        names = [*(kind.name for kind in KINDS), DIGEST]
        if unknown := [kind for kind in kinds if kind not in names]:
            raise PipelineError(f"no kind {unknown[0]!r}: there are {', '.join(names)}")

    def takes(self, kind: str) -> bool:
        """Whether a micro-batch of that kind has anything for it."""
        return not self.kind or kind in self.kind

    def select(self, rows: DataFrame) -> DataFrame:
        """The rows that this sink gets, in the form that it takes, from rows with lists of subscribers."""
        if self.subscriber != _ALL:
            rows = self._for_fitting_readers(rows)
        return explode(rows) if self.sink.explode else rows

    def _for_fitting_readers(self, rows: DataFrame) -> DataFrame:
        pattern = _like(self.subscriber)
        lists = [name for name in (*READERS, METADATA) if name in rows.columns]
        fitting = F.filter(F.arrays_zip(*lists), lambda reader: reader[READERS[1]].like(pattern))
        chosen = rows.withColumn(_FITTING, fitting).where(F.size(_FITTING) > 0)
        return chosen.select(
            *[
                F.col(f"{_FITTING}.{name}").alias(name) if name in lists else quote_name(name)
                for name in rows.columns
            ]
        )


@dataclass(frozen=True)
class SeveralSinks:
    """Sinks that get the same notifications, or, as a `SinkWhen`, some of them."""

    sinks: Sequence[Sink | SinkWhen]
    explode: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sinks", tuple(self.sinks))
        if not self.sinks:
            raise PipelineError("there is no sink in the list of sinks: give one at least")
        targets: dict[object, str] = {}
        for name, member in self._members().items():
            if not isinstance(member.sink, Sink) or isinstance(member.sink, SeveralSinks):
                raise PipelineError(
                    f"{name} is not a sink that can be one of several: it needs guarantee, explode, check and write"
                )
            target = _target(member.sink)
            if target is not None and target in targets:
                raise PipelineError(
                    f"{targets[target]} and {name} write to the same place: the second would find the micro-batch of "
                    "the first there, and write nothing. Give each a place of its own"
                )
            targets[target] = name

    @property
    def guarantee(self) -> str:
        """The weakest guarantee that one of them has."""
        exactly = all(one.sink.guarantee == EXACTLY_ONCE for one in self._members().values())
        return EXACTLY_ONCE if exactly else AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        if not set(READERS) <= set(columns):
            raise PipelineError("several sinks take notifications: dead letters go to one sink")
        names = dict(zip(READERS, READER, strict=True))
        exploded = [names.get(name, name) for name in columns]
        for name, member in self._members().items():
            with _naming(name):
                member.sink.check(spark, exploded if member.sink.explode else columns)

    def write(self, rows: DataFrame, batch: Batch) -> bool | None:
        """True if one of them ran the rows, False if all that take this kind had the micro-batch; None if unknown."""
        chosen = {n: one for n, one in self._members().items() if one.takes(batch.kind)}
        if not chosen:
            rows.write.format("noop").mode(
                "overwrite"
            ).save()  # run it all the same, for its counts and dead letters
            return True
        if len(chosen) > 1:
            rows.persist()
        said = set()
        try:
            for name, one in chosen.items():
                with _naming(name):
                    said.add(one.sink.write(one.select(rows), batch))
        finally:
            if len(chosen) > 1:
                rows.unpersist()
        return True if True in said else None if None in said else False

    def _members(self) -> dict[str, SinkWhen]:
        """The sinks by their names in messages, which number them as a pipeline file does."""
        found = [one if isinstance(one, SinkWhen) else SinkWhen(one) for one in self.sinks]
        return {f"sink.{n} ({type(one.sink).__name__})": one for n, one in enumerate(found)}


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """A block in which errors name the sink."""
    try:
        yield
    except Exception as error:
        reason = cause(error).removeprefix("penstock.base.errors.PipelineError: ")
        raise PipelineError(f"{name}: {reason}") from error


def _target(sink: Sink) -> object:
    """Where a sink writes to, if it skips micro-batches that are there; None if it never skips."""
    if sink.guarantee != EXACTLY_ONCE:
        return None
    path = getattr(sink, "path", None)
    if path is not None:
        return path if is_remote(path) else local_path(path, "sink").resolve()
    return getattr(sink, "url", None), getattr(sink, "table", sink)


def _like(pattern: str) -> str:
    r"""The same pattern for SQL's LIKE.

    >>> print(_like("50%_?*"))
    50\%\__%
    """
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")
