"""Options that several commands share, and how their texts are read."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.terminal import read_text

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.language import Schema
    from penstock.operators.define import Operators

DEFAULT_REGISTRY = "sqlite:///penstock.db"

RegistryUrl = Annotated[
    str,
    typer.Option(
        "--registry",
        "-r",
        envvar="PENSTOCK_REGISTRY",
        metavar="URL",
        help="The registry: a file, sqlite:///subs.db or postgresql://user@host/database.",
    ),
]
SubscriptionsFrom = Annotated[
    str,
    typer.Option(
        "--subscriptions",
        "-s",
        envvar="PENSTOCK_REGISTRY",
        metavar="FILE|URL",
        help="A .csv, .jsonl or .parquet file of subscriptions, or the URL of a registry.",
    ),
]
COLUMNS = "Columns of a file of subscriptions"
SPARK = "Spark"

IdColumn = Annotated[
    str,
    typer.Option(metavar="NAME", help="Ids; it may be missing.", rich_help_panel=COLUMNS),
]
SubscriberColumn = Annotated[
    str, typer.Option(metavar="NAME", help="Subscribers.", rich_help_panel=COLUMNS)
]
FilterColumn = Annotated[
    str, typer.Option(metavar="NAME", help="Filters.", rich_help_panel=COLUMNS)
]
LeaseText = Annotated[
    str,
    typer.Option(
        "--lease", metavar="TIME", help="How long it lives: '90 minutes', '7 days', 'forever'."
    ),
]
SchemaText = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="SCHEMA",
        help="Schema of the events: 'symbol string, price double', "
        '\'{"price": "double"}\', or @FILE.',
    ),
]
CatalogFile = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="FILE",
        help="The tables that select-joins may name, and along which attributes they are joined, in YAML.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master; by default this machine, or spark-submit's.",
        rich_help_panel=SPARK,
    ),
]
OperatorsFrom = Annotated[
    str | None,
    typer.Option(
        "--operators",
        envvar="PENSTOCK_OPERATORS",
        metavar="MODULE",
        help="Operators that filters may call: a module, or MODULE:NAME.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, for scripts.")]


def check_choice(value: str, choices: tuple[str, ...], option: str) -> str:
    """The value of an option, which must be one of `choices`."""
    if value not in choices:
        raise typer.BadParameter(f"{value!r}: there are {', '.join(choices)}", param_hint=option)
    return value


def check_memory(text: str | None, option: str = "--driver-memory") -> str | None:
    """Check an amount of memory, in the form that Spark takes.

    >>> check_memory("4g"), check_memory("512m"), check_memory(None)
    ('4g', '512m', None)
    """
    if text is not None and not re.fullmatch(r"[1-9][0-9]*[mgt]b?", text.lower()):
        raise typer.BadParameter(f"{text!r}: write it like 4g or 512m", param_hint=option)
    return text


def operators_of(text: str | None) -> "Operators":
    """The operators that an option names. Modules of the current folder are found, also by Spark's workers.

    >>> operators_of(None)
    Operators()
    """
    from penstock.operators.define import Operators

    if text is not None:
        importable_from_here()
    return Operators.of(text)


def importable_from_here() -> None:
    """Let this process, and those that it starts, import modules of the current folder, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    before = os.environ.get("PYTHONPATH", "")
    if here not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, before)))


def schema_value(text: str, option: str = "--schema") -> str | Mapping[str, Any]:
    """A schema as the command line has it: a mapping, or DDL (which stays text).

    >>> schema_value('{"price": "double", "venue": {"country": "string"}}')
    {'price': 'double', 'venue': {'country': 'string'}}
    >>> schema_value("price double")
    'price double'
    """
    text = read_text(text, option).strip()
    if not text.startswith("{"):
        return text
    # YAML includes JSON, and what people type instead of it.
    from penstock.base.yaml_texts import YamlError, read_yaml

    try:
        value = read_yaml(text)
    except YamlError as error:
        raise typer.BadParameter(f"not a schema: {error}", param_hint=option) from None
    if not isinstance(value, Mapping):
        raise typer.BadParameter("a schema is a mapping of names to types", param_hint=option)
    return value


def read_catalog(path: Path, option: str = "--catalog") -> "Catalog":
    """The catalogue in a file: tables with schema, key and payload, and edges between them."""
    from penstock.base.errors import CatalogError
    from penstock.base.yaml_texts import YamlError, read_yaml
    from penstock.joins.catalog import Catalog

    try:
        value = read_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(value, Mapping) or not isinstance(value.get("tables"), Mapping):
            raise CatalogError(["it has no tables: expected tables: {Stocks: {schema: …, key: …}}"])
        return Catalog.from_json(json.dumps(value))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror or error}", param_hint=option) from None
    except (YamlError, CatalogError, TypeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint=option) from None


def schema_of(text: str, option: str = "--schema") -> "Schema":
    """The schema that an option gives.

    >>> print(schema_of("price double, venue struct<country: string>"))
    struct<price: double, venue: struct<country: string>>
    """
    from penstock.base.errors import SchemaError
    from penstock.pipeline.schema_texts import read_schema

    try:
        return read_schema(schema_value(text, option))
    except SchemaError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
