"""Opens the subscriptions that a command line names: a file, or a registry.

A file without a column of ids gets its row numbers as ids, so that `match` and `explain` mean the same subscription by
an id.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.base.errors import FilterError
    from penstock.language import Schema
    from penstock.operators.define import Operators
    from penstock.registry import Subscriptions
    from penstock.registry.incoming import SourceColumns


def is_file(source: str) -> bool:
    """Whether subscriptions are in a file (or a folder of Parquet). Otherwise they are in a registry.

    >>> is_file("subs.jsonl"), is_file("sqlite:///subs.db"), is_file("subs.db")
    (True, False, False)
    """
    from penstock.registry.incoming_files import is_text_file

    if "://" in source:
        return False
    path = Path(source)
    return path.suffix == ".parquet" or is_text_file(path) or path.is_dir()


def open_subscriptions(
    source: str, columns: "SourceColumns", schema: "Schema", operators: "Operators"
) -> "tuple[Subscriptions, list[tuple[int | None, FilterError]]]":
    """The subscriptions of a file or a registry, and the errors of those in a file that are refused."""
    from penstock.registry import Subscriptions

    if not is_file(source):
        return Subscriptions.open(source, create=False, operators=operators), []
    subs = Subscriptions(schema, operators=operators)
    report = subs.load(read_file(source, columns), lease="forever", on_error="skip")
    return subs, list(report.errors)


def registry_schema(source: str) -> "Schema | None":
    """The schema of a registry; None if it has none, or if subscriptions are in a file."""
    from penstock.registry import Subscriptions

    if is_file(source):
        return None
    with Subscriptions.open(source, create=False) as subs:
        return subs.schema


def read_file(source: str, columns: "SourceColumns") -> "pa.Table":
    """A file of subscriptions, with columns id, subscriber and filter."""
    import pyarrow as pa

    from penstock.registry.incoming import read_source

    if not Path(source).exists():
        raise typer.BadParameter(f"there is no {source}", param_hint="--subscriptions")
    incoming = read_source(source, columns)
    ids = incoming.ids
    if ids is None:
        ids = pa.array(range(1, len(incoming) + 1), pa.int64())
    return pa.table({"id": ids, "subscriber": incoming.subscribers, "filter": incoming.filters})
