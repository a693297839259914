"""Spreads buckets evenly over Spark's partitions.

Spark chooses the partition of a key by the hash of its columns. Of 32 buckets on 8 partitions one partition then gets 7
or 8, and a micro-batch takes as long as the fullest. So the key of a bucket has a third column, a number chosen so that
the hash of all three leads to the partition whose turn it is. Then all partitions have equally many buckets of each
stage, plus or minus one. (It doesn't help if a few join keys make most of the work: a key is in one bucket.)

The numbers depend on how many partitions there are, and are part of the keys in the state store. So the number of
partitions is fixed for the life of a query, as it is in Spark itself.
"""

import functools
import itertools
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from penstock.pipeline.joins.stages import Stages

if TYPE_CHECKING:
    from pyspark.sql import GroupedData

_BITS = 0xFFFFFFFF
_SEED = 42  # Spark's


def by_bucket(rows: DataFrame, stages: Stages) -> "GroupedData":
    """Rows with a stage and a bucket, grouped by these, the groups evenly spread."""
    most = max(len(stages.all), len(stages.catalog.declared))  # of either stateful operator
    numbers = spread_buckets(most, stages.buckets, stages.partitions)
    at = F.col("stage") * stages.buckets + F.col("bucket")
    third = F.get(F.array(*map(F.lit, numbers)), at).alias("spread")
    return rows.select("*", third).groupBy("stage", "bucket", "spread")


@functools.lru_cache(maxsize=16)
def spread_buckets(stages: int, buckets: int, partitions: int) -> tuple[int, ...]:
    """The third number of each bucket's key, stage by stage.

    >>> keys = [(stage, bucket) for stage in range(2) for bucket in range(4)]
    >>> [partition_of((*key, third), 2) for key, third in zip(keys, spread_buckets(2, 4, 2))]
    [0, 0, 1, 1, 1, 1, 0, 0]
    """
    turns = [
        (bucket * partitions // buckets + stage) % partitions
        for stage in range(stages)
        for bucket in range(buckets)
    ]
    keys = itertools.product(range(stages), range(buckets))
    return tuple(
        next(n for n in itertools.count() if partition_of((*key, n), partitions) == turn)
        for key, turn in zip(keys, turns, strict=True)
    )


def partition_of(key: tuple[int, ...], partitions: int) -> int:
    """The partition to which Spark sends a key of 32-bit integers: their Murmur3 hash modulo the partitions."""
    found = functools.reduce(_hashed, key, _SEED)
    signed = found - (1 << 32) if found >> 31 else found
    return signed % partitions


def _hashed(seed: int, value: int) -> int:
    """One round of Murmur3 over four bytes, and its finish."""
    mixed = _turned(value * 0xCC9E2D51, 15) * 0x1B873593 & _BITS
    found = (_turned(seed ^ mixed, 13) * 5 + 0xE6546B64 & _BITS) ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _BITS
    found = (found ^ found >> 13) * 0xC2B2AE35 & _BITS
    return found ^ found >> 16


def _turned(bits: int, by: int) -> int:
    bits &= _BITS
    return (bits << by | bits >> (32 - by)) & _BITS
