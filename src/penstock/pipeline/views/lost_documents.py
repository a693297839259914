"""Warns on the driver how many documents a frame has lost, if the frame keeps no dead letters.

Tasks count in an accumulator of Spark's, which the driver merges as tasks end. Spark Connect has no accumulators: there
is no warning.
"""

import logging
import os

from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from penstock.pipeline.session import is_connect

_log = logging.getLogger("penstock.pipeline")


class _SaidSum(AccumulatorParam[int]):
    """A sum. The driver logs it whenever it has grown."""

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
    """The sum that tasks add to; None with Spark Connect."""
    return None if is_connect(spark) else spark.sparkContext.accumulator(0, _SaidSum())
