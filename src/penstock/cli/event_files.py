"""Events from files for a batch job.

Lines of JSON and CSV go through the same parser as in a pipeline, which finds every record that isn't an event; Spark's
own readers would put nulls in its place. Such records are set aside if the job has a place for them; else the first
one ends the job, before anything has been written.

The types of columns come from `--events-schema`, else from the schema of the registry; columns that neither has get the
type that Spark infers. If all types were inferred, a single "n/a" would make a column of prices text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.options import check_choice, schema_of, schema_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.language import Schema
    from penstock.pipeline.dead_letters import Records

FORMATS = ("parquet", "json", "csv", "orc")
_SUFFIXES = {
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".orc": "orc",
}
_ADVICE = "  (--dead-letters FOLDER sets such records aside)"
_PACKED = (".gz", ".bz2", ".zst", ".snappy", ".lz4")


@dataclass(frozen=True)
class EventFiles:
    """The path of files with events, their format, and their schema if it was given."""

    path: str
    format: str
    schema: str | Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Events:
    """Events from files. `records` says how records are written, to explain bad ones; None if there can't be any."""

    frame: "DataFrame"
    records: "Records | None"
    inferred: bool = False  # whether the types of columns are guesses


def format_of(path: str) -> str | None:
    """The format that a file's name tells; for a folder, that of a file in it.

    >>> format_of("ticks/day.jsonl.gz"), format_of("s3a://market/ticks")
    ('json', None)
    """
    name = path.rstrip("/")
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    if (known := _SUFFIXES.get(Path(name).suffix.lower())) is not None:
        return known
    folder = Path(path)
    if "://" in path or not folder.is_dir():
        return None
    inside = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name[0] not in "._")
    return next((f for f in (format_of(str(p)) for p in inside) if f is not None), None)


def spark_path(path: str, *, local: bool) -> str:
    """A path as Spark gets it. A local one is made absolute: Spark's JVM may have been started in another folder,
    and on a cluster a bare path is one of HDFS.

    >>> spark_path("/data/in", local=True), spark_path("s3a://market/ticks", local=True)
    ('file:///data/in', 's3a://market/ticks')
    """
    return f"file://{Path(path).absolute()}" if local and "://" not in path else path


def event_files(path: str, format_: str | None, schema: str | None, *, local: bool) -> EventFiles:
    """The files that a command line names; `local` ones are this machine's, not those of a Connect server."""
    is_here = local and "://" not in path and not set("*?[{") & set(path)
    if is_here and not Path(path).exists():
        raise typer.BadParameter(f"there is no {path}", param_hint="EVENTS")
    chosen = format_ or format_of(path)
    if chosen is None:
        raise typer.BadParameter(
            f"can't tell what {path} is by its name", param_hint="--events-format"
        )
    value = None
    if schema is not None:
        schema_of(schema, "--events-schema")  # refused here, not by Spark
        value = schema_value(schema, "--events-schema")
    chosen = check_choice(chosen, FORMATS, "--events-format")
    return EventFiles(spark_path(path, local=local), chosen, value)


def read_events(spark: "SparkSession", files: EventFiles, known: "Schema | None" = None) -> Events:
    """The events of the files, with the parser's verdict beside them; `known` is the registry's schema."""
    from pyspark.sql import functions as F  # noqa: N812

    from penstock.pipeline.dead_letters import Records
    from penstock.pipeline.sources import Source, event_schema, parse, separator_of

    options = {"header": "true"} if files.format == "csv" else {}
    reader = spark.read.format(files.format).options(**options)
    if files.schema is not None:
        ddl = Source(files.format, files.path, files.schema).ddl
        assert ddl is not None, "a source with a schema has one"
        reader = reader.schema(ddl)
    if files.format not in ("json", "csv"):
        return Events(reader.load(files.path), None)
    if files.schema is None:
        reader = reader.option("inferSchema", "true")
    schema = event_schema(reader.load(files.path))
    wanted = [f for f in schema.fields if f.name != "_corrupt_record"]
    if not wanted:
        raise typer.BadParameter(
            f"no attributes found in {files.path}: is it {files.format}? Or give --events-schema"
        )
    schema = type(schema)(wanted)
    missing = type(schema)([])
    if files.schema is None and known is not None:
        schema, missing = _typed_by(known, schema)
    if files.format == "json":
        # A record needn't have all attributes; a line of CSV has those of the header.
        schema = type(schema)([*schema.fields, *missing.fields])
    lines = spark.read.text(files.path).select("value")
    frame = parse(lines, schema, files.format, options)
    records = Records(files.format, schema, separator_of(options))
    for field in missing.fields if files.format == "csv" else ():
        frame = frame.withColumn(field.name, F.lit(None).cast(field.dataType))
    return Events(frame, records, inferred=files.schema is None and known is None)


def _typed_by(known: "Schema", found: "StructType") -> "tuple[StructType, StructType]":
    """Columns with the types that a registry gives them, and the attributes that aren't among them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    of_registry = {field.name: field for field in from_arrow_schema(known.to_arrow()).fields}
    typed = [of_registry.pop(field.name, field) for field in found.fields]
    return type(found)(typed), type(found)(list(of_registry.values()))


def good_events(events: Events, *, set_aside: bool) -> "DataFrame":
    """The events alone. Unless other records are set aside, the first record that isn't an event ends the job."""
    from pyspark.sql import functions as F  # noqa: N812

    from penstock.pipeline.sources import RAW, REASON

    if events.records is None:
        return events.frame
    good = F.col(REASON).isNull()
    if not set_aside:
        shown = F.left(F.col(RAW).cast("string"), F.lit(200))
        said = F.concat(F.lit("a record is "), F.col(REASON), F.lit(": "), shown, F.lit(_ADVICE))
        good = good | F.raise_error(said).cast("boolean")
    return events.frame.where(good).drop(REASON, RAW)
