"""Packages that some sources and sinks need and that Spark doesn't bring.

They are looked for before Spark starts, by the names of their files: in Spark's own folder of jars, and in the settings
`spark.jars.packages` and `spark.jars` of a pipeline. A cluster may have packages of its own, so a package that isn't
found is only a warning.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark

_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{}",
    "avro": "org.apache.spark:spark-avro_2.13:{}",
}


def package_of(format_: str, version: str = pyspark.__version__) -> str | None:
    """The package that a format needs, with the version that fits this Spark; None if it needs none.

    >>> package_of("kafka", "4.0.1"), package_of("json")
    ('org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1', None)
    """
    found = _PACKAGES.get(format_)
    return None if found is None else found.format(version)


def missing_packages(config: Any) -> list[str]:
    """A line for each package that a pipeline's description needs and doesn't name."""
    return [
        f"{format_} needs the package {package}, which Spark doesn't bring: name it under spark, config, "
        f"spark.jars.packages, unless the cluster has it"
        for format_ in sorted(set(_formats(config)))
        if (package := package_of(format_)) is not None
        and not _is_there(package, config.spark.config)
    ]


def _formats(config: Any) -> Iterator[str]:
    for source in (config.events, *(config.tables or {}).values(), config.documents):
        if source is not None:
            yield source.format
    for sink in getattr(config.sink, "sinks", [config.sink]):
        alone = getattr(sink, "sink", sink)
        yield type(alone).__name__.removesuffix("Sink").lower()


def _is_there(package: str, settings: Mapping[str, str]) -> bool:
    name = package.split(":")[1]
    named = settings.get("spark.jars.packages", "") + settings.get("spark.jars", "")
    if name in named:
        return True
    return any((Path(pyspark.__file__).parent / "jars").glob(f"{name}-*.jar"))
