"""The two stateful operators of Spark: their keys are buckets, and each bucket has its log in the state store.

Spark starts a process for each operator, at every start of a query, just to ask what its state looks like. So this
module imports little; the stages themselves are imported when the first bucket is visited.
"""

import functools
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.pipeline.joins.logs import BucketLog

if TYPE_CHECKING:
    from penstock.pipeline.joins.stages import Stages

_HEAD_SCHEMA = "head string"
_NUMBER_SCHEMA = "number bigint"
_ENTRY_SCHEMA = "entry binary"


class BucketStage(Protocol):
    """Works on the rows that come to a bucket."""

    def visit(
        self, number: int, bucket: int, rows: Iterator[Any], log: BucketLog
    ) -> Iterator[Row]: ...

    def end_task(self) -> None:
        """Called when all buckets of a task have been visited."""


class _BucketProcessor(StatefulProcessor):
    """A stateful operator. `stages` is the JSON of `Stages.to_dict`, `home` the folder of the snapshots."""

    def __init__(self, stages: str, home: str) -> None:
        self._stages, self._home = stages, home

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD_SCHEMA)
        self._entries = handle.getMapState("entries", _NUMBER_SCHEMA, _ENTRY_SCHEMA)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        log = BucketLog(self._head, self._entries)
        return self._stage.visit(int(key[0]), int(key[1]), rows, log)

    @functools.cached_property
    def _stage(self) -> BucketStage:
        from penstock.pipeline.joins.following import read_stages

        return self._loaded(read_stages(self._stages))

    @abstractmethod
    def _loaded(self, stages: "Stages") -> BucketStage:
        """The stage, imported only now."""

    def close(self) -> None:
        if "_stage" in vars(self):  # not where Spark only asks what the state looks like
            self._stage.end_task()


class TupleProcessor(_BucketProcessor):
    """The first stage."""

    def __init__(self, stages: str, home: str, versioned: dict[str, bool]) -> None:
        super().__init__(stages, home)
        self._versioned = versioned

    def _loaded(self, stages: "Stages") -> BucketStage:
        from penstock.pipeline.joins.tuple_stage import TupleStage

        return TupleStage(stages, self._home, self._versioned)


class SemijoinProcessor(_BucketProcessor):
    """The second stage; `letters` is the folder for its dead letters."""

    def __init__(self, stages: str, home: str, letters: str) -> None:
        super().__init__(stages, home)
        self._letters = letters

    def _loaded(self, stages: "Stages") -> BucketStage:
        from penstock.pipeline.joins.semijoin_stage import SemijoinStage

        return SemijoinStage(stages, self._home, self._letters)
