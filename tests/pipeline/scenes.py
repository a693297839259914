"""What the tests of this room set up again and again: a registry, events in files, a pipeline."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.sizes import PATIENCE

import penstock
from penstock.delivery import FileSink
from penstock.pipeline import Pipeline, Source

SCHEMA = {"id": "bigint", "symbol": "string", "price": "double"}


def write_events(
    folder: Path, name: str, events: Iterable[Mapping[str, Any] | str | bytes]
) -> None:
    """A file of JSON lines, which appears in `folder` whole. Text and bytes are written as they are."""
    lines = [
        event
        if isinstance(event, bytes)
        else (event if isinstance(event, str) else json.dumps(event)).encode()
        for event in events
    ]
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_bytes(b"".join(line + b"\n" for line in lines))
    hidden.rename(folder / name)


def tick(number: int, symbol: str = "A", price: float = 1.0) -> dict[str, Any]:
    return {"id": number, "symbol": symbol, "price": price}


def pipeline(tmp_path: Path, spark: Any, registry: Any, **changes: Any) -> Pipeline:
    """A pipeline from JSON files in `in` to Parquet files in `out`, with whatever a test changes."""
    (tmp_path / "in").mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "events": Source("json", str(tmp_path / "in"), SCHEMA),
        "subscriptions": registry,
        "sink": FileSink(str(tmp_path / "out")),
        "checkpoint": tmp_path / "checkpoint",
        "trigger": "available-now",
        "spark": spark,
    }
    return Pipeline(**{**settings, **changes})


def run(piped: Pipeline) -> Any:
    """Run a pipeline until everything there has been read; its metrics."""
    running = piped.start()
    assert running.await_termination(PATIENCE)
    return running.metrics


def delivered(folder: Path, kind: str = "*") -> list[tuple[int, int, int]]:
    """(batch, event id, subscription) of every notification of an event in a file sink, sorted."""
    import pyarrow.dataset as ds

    files = sorted(str(p) for p in folder.glob(f"kind={kind}/batch=*/*.parquet"))
    if not files:
        return []
    table = ds.dataset(files, partitioning=ds.partitioning(flavor="hive")).to_table()
    ids = pc.struct_field(table["event"], "id")
    columns = [column.to_pylist() for column in (table["batch"], ids, table["subscriptions"])]
    return sorted(
        (batch, event, subscription)
        for batch, event, readers in zip(*columns, strict=True)
        for subscription in readers
    )


def forget_commit(tmp_path, batch, of="events"):
    """Make Spark believe that it crashed before it committed a micro-batch."""
    (tmp_path / f"checkpoint/{of}/commits/{batch}").unlink()
    (tmp_path / f"checkpoint/{of}/commits/.{batch}.crc").unlink(missing_ok=True)


def market() -> penstock.Subscriptions:
    return penstock.Subscriptions(SCHEMA)


def crowd(count: int = 600) -> penstock.Subscriptions:
    """Many that cover others or are equal to them, some of two boxes, some that match nothing."""
    subs = penstock.Subscriptions({"a": "bigint", "b": "bigint", "s": "string"})
    texts = [
        [
            f"a BETWEEN {n % 17} AND {n % 17 + n % 5} AND b > {n % 7}",
            f"a > {n % 23}",
            f"s IN ('{n % 3}', '{n % 11}') AND b < {n % 13}",
            f"a = {n % 40} OR b = {n % 40} AND s LIKE '%{n % 9}'",
            f"a > {n} AND a < {n}",
        ][n * n % 5]
        for n in range(count)
    ]
    subs.load(pa.table({"subscriber": ["ann"] * count, "filter": texts}))
    return subs
