"""Dead letters, without Spark: whatever a record holds, there is a sentence about it, and a row that can be shown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.base.row_values import row_dicts, unreadable_rows
from penstock.pipeline.dead_letter_files import DeadLetterFile, count_dead_letters, dead_letter_of
from penstock.pipeline.dead_letters import Records, explain

_LEAVES = (
    DecimalType(6, 2),
    DecimalType(38, 38),
    DoubleType(),
    ShortType(),
    LongType(),
    BooleanType(),
    StringType(),
    DateType(),
    TimestampType(),
)


def _struct(fields: list[DataType]) -> DataType:
    return StructType([StructField(name, kind) for name, kind in zip("abc", fields, strict=False)])


TYPES = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        inner.map(lambda kind: MapType(StringType(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(_struct),
    ),
    max_leaves=4,
)
_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999999", "-0", "9" * 40, "9" * 5000, "0.1e-400")
VALUES = st.recursive(
    st.one_of(
        st.sampled_from(_NUMBERS),
        st.sampled_from(["+12000-01-01", "0000-00-00", "\ud800", "\x00", "1e5", ""]).map(
            json.dumps
        ),
        st.sampled_from(["null", "true", "1", "2.5"]),
        st.text(max_size=3).map(json.dumps),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3).map(
            lambda parts: "{" + ",".join(f'"{name}":{value}' for name, value in parts) + "}"
        ),
    ),
    max_leaves=6,
)


@given(TYPES, VALUES, st.sampled_from(["json", "csv"]))
def test_every_record_can_be_explained(kind: DataType, value: str, written: str) -> None:
    """Numbers that are none, days that no calendar has, nesting of any kind: the sentence never fails, and is text."""
    schema = StructType([StructField("a", kind)])
    for text in (f'{{"a":{value}}}', value):
        explain(text, Records(written, schema)).encode()


def test_nesting_without_end_is_explained() -> None:
    schema = StructType([StructField("a", DoubleType())])
    assert explain('{"a":' * 100_000, Records("json", schema)).startswith("not JSON")


_DAYS = st.integers(-(2**31), 2**31 - 1)
_MOMENTS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(_DAYS, _MOMENTS, st.binary(max_size=4)), min_size=1, max_size=8))
def test_every_row_can_be_shown(rows: list[tuple[int, int, bytes]]) -> None:
    """Any day, any moment, any bytes where a text should be, nested or not, become a letter that is JSON."""
    days = pa.array([day for day, _, _ in rows], pa.int32()).cast(pa.date32())
    moments = pa.array([moment for _, moment, _ in rows], pa.int64()).cast(
        pa.timestamp("us", "UTC")
    )
    texts = pa.array([text for _, _, text in rows], pa.binary()).view(pa.string())
    nested = pa.StructArray.from_arrays([days, texts], names=["day", "text"])
    offsets = pa.array(range(len(rows) + 1), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, moments)
    maps = pa.MapArray.from_arrays(offsets, pa.array(map(str, range(len(rows)))), days)
    columns: dict[str, Any] = {
        "day": days, "at": moments, "text": texts, "nested": nested, "lists": lists, "maps": maps
    }  # fmt: skip
    shown = row_dicts(pa.record_batch(columns))
    assert len(shown) == len(rows)
    for row in shown:
        assert set(json.loads(json.loads(dead_letter_of("why", row))["raw"])) == set(columns)
    for column in (days, moments, texts):
        bad = set(unreadable_rows(column))
        for n, one in enumerate(column):
            try:
                one.as_py()
            except Exception:  # noqa: BLE001
                assert n in bad
            else:
                assert n not in bad


def test_letters_are_written_as_they_are_found(tmp_path: Path) -> None:
    """A task keeps none of them; nobody sees them before it is done, and a second try replaces the first."""
    with DeadLetterFile(tmp_path, "failed") as letters:
        letters.add(["{}"] * 3)
        assert not list(tmp_path.glob("[!.]*"))
        assert count_dead_letters([tmp_path]) == 0
    with DeadLetterFile(tmp_path, "failed") as letters:
        letters.add(iter(["{}"] * 2))
    assert count_dead_letters([tmp_path, tmp_path / "nowhere"]) == 2
    assert (tmp_path / "failed-0.jsonl").read_text() == "{}\n{}\n"


def test_a_task_that_fails_leaves_no_letters(tmp_path: Path) -> None:
    def letters() -> Iterator[str]:
        yield "{}"
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), DeadLetterFile(tmp_path, "failed") as file:
        file.add(letters())
    assert not list(tmp_path.iterdir())
    with DeadLetterFile(None, "failed") as file:
        file.add(["{}"])  # nobody wants them
