"""Conditions on columns as a Spark Column that sources push down, for classic Spark and Connect.

Names are quoted and values are literals, so odd names and strings need no care. Timestamps are given as text with a
zone. Spark reads it as the type of the column, `timestamp` or `timestamp_ntz`, and makes it a constant before it plans.

To Spark, NaN is above all doubles. In the statistics that writers such as Arrow put into Parquet files, and in those of
`cache()`, it isn't: by them Spark would skip a part that has a NaN, though `price > 5` wants it. Where NaN is wanted,
`isnan(price)` keeps Spark from looking at the statistics of that column. If the data have no NaN, `nan=False` leaves
`isnan` out.
"""

import datetime
from collections.abc import Callable, Sequence
from operator import and_, ge, gt, le, lt, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f

from penstock.base.sql_names import quote_name
from penstock.covering.interest.wording import ColumnCondition, instant
from penstock.language.calls import Path


def column_of(boxes: Sequence[tuple[ColumnCondition, ...]], nan: bool) -> Column:
    """Boxes as a condition. It needs a session, as all Columns do."""
    found = [_joined([_asked(condition, nan) for condition in box], and_, True) for box in boxes]
    return _joined(found, or_, False)


def _joined(
    found: Sequence[Column], join: Callable[[Column, Column], Column], none: bool
) -> Column:
    """All conditions joined, in a tree that is as flat as can be: Spark recurses into it. `none`: the value without."""
    if not found:
        return f.lit(none)
    level = list(found)
    while len(level) > 1:
        pairs = [join(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def _asked(condition: ColumnCondition, nan: bool) -> Column:
    column = f.col(_name(condition.path))
    found = []
    if condition.null:
        found.append(column.isNull())
    if len(condition.points) == 1:
        found.append(column == _literal(condition.points[0]))
    elif condition.points:
        found.append(column.isin([_literal(value) for value in condition.points]))
    for low, high in condition.ranges:
        ends = [(ge if low.included else gt)(column, _literal(low.value))] if low else []
        ends += [(le if high.included else lt)(column, _literal(high.value))] if high else []
        found.append(_joined(ends, and_, True) if ends else column.isNotNull())
    if nan and condition.has_nan:
        found.append(f.isnan(column))
    return _joined(found, or_, False)


def _literal(value: Any) -> Column:
    return f.lit(instant(value) if isinstance(value, datetime.datetime) else value)


def _name(path: Path) -> str:
    return ".".join(map(quote_name, path))
