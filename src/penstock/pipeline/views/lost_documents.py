"""How many documents a frame has lost that keeps no dead letters: said on the driver, when tasks are done.

Tasks count, in an accumulator of Spark's, which the driver merges as tasks end. Spark Connect has none: there nobody
is told.
"""

import logging
import os

from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from penstock.pipeline.session import is_connect

_log = logging.getLogger("penstock.pipeline")


class _SaidSum(AccumulatorParam[int]):
    """A sum; the driver says what it is whenever it has grown."""

    def __init__(self) -> None:
        self._driver = os.getpid()

    def zero(self, value: int) -> int:
        return 0

    def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
        total = value1 + value2
        if value2 and os.getpid() == self._driver:
            many = "document" if total == 1 else "documents"
            _log.warning(
                "%d %s couldn't be read, or had too many tuples: match_views(…, dead_letters=FOLDER) keeps them, "
                "with the reason",
                total,
                many,
            )
        return total


def lost_documents(spark: SparkSession) -> Accumulator[int] | None:
    """What tasks add to; None with Spark Connect."""
    return None if is_connect(spark) else spark.sparkContext.accumulator(0, _SaidSum())
