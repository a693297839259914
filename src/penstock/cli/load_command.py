"""`penstock load`: many subscriptions at once, again and again."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from penstock.cli.open_registry import end_text, open_or_make
from penstock.cli.options import (
    COLUMNS,
    DEFAULT_REGISTRY,
    AsJson,
    CatalogFile,
    FilterColumn,
    IdColumn,
    LeaseText,
    OperatorsFrom,
    RegistryUrl,
    SchemaText,
    SubscriberColumn,
)
from penstock.cli.terminal import count, put_json, refusals_text, report_errors, say, warn


@report_errors()
def load(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A .csv, .jsonl or .parquet file, or a folder of Parquet."
        ),
    ],
    registry: RegistryUrl = DEFAULT_REGISTRY,
    lease: LeaseText = "1 day",
    schema: SchemaText = None,
    catalog: CatalogFile = None,
    operators: OperatorsFrom = None,
    tickets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write ids and tickets of new ones here as JSON lines; else no tickets.",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out those that are refused, and go on.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="End what an earlier load of the same source had and this one hasn't; needs --external-id.",
        ),
    ] = False,
    source_name: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="NAME",
            help="Whose external ids these are, if several applications share the registry.",
            show_default=False,
        ),
    ] = "",
    id_column: IdColumn = "id",
    external_id: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the source itself calls each: any text. The registry then assigns ids.",
            rich_help_panel=COLUMNS,
            show_default=False,
        ),
    ] = None,
    subscriber_column: SubscriberColumn = "subscriber",
    filter_column: FilterColumn = "filter",
    metadata: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Kept as metadata: names with commas, or 'none'; by default all other columns.",
            rich_help_panel=COLUMNS,
            show_default=False,
        ),
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How often each is notified at most: '10 per hour', 'digest per day', or nothing.",
            rich_help_panel=COLUMNS,
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add many subscriptions at once, or change them: all or, if any is refused, none.

    The same file can be loaded again and again. A row is known again by its
    id or, with --external-id, by what the source itself calls it: what has
    changed is changed, and all get a new lease. With --replace, what is no
    longer in the file ends: only subscriptions that were loaded with an
    external id of the same --source.

    Examples:
    penstock load searches.csv --external-id ref --replace --lease forever
    penstock load subscriptions.parquet --lease forever --schema @schema.json
    penstock load subscriptions.jsonl --tickets tickets.jsonl --skip-bad
    """
    with (
        open_or_make(registry, schema, operators, catalog) as subs,
        _ticket_file(tickets) as file,
    ):
        report = subs.load(
            source,
            id=id_column,
            subscriber=subscriber_column,
            filter=filter_column,
            lease=lease,
            tickets=file is not None,
            on_error="skip" if skip_bad else "raise",
            external_id=external_id,
            metadata=_names(metadata),
            pace=pace,
            replace=replace,
            source_name=source_name,
        )
        if file is not None and report.tickets is not None:
            for row in report.tickets.to_pylist():
                file.write(json.dumps(row) + "\n")
    if report.errors:
        warn(refusals_text(report.errors))
    if as_json:
        put_json(
            {
                "loaded": report.loaded,
                "new": report.new,
                "changed": report.changed,
                "same": report.same,
                "ended": report.ended,
                "expires": report.expires and report.expires.isoformat(),
                "refused": [{"id": sid, "reason": str(e)} for sid, e in report.errors],
                "seconds": round(report.seconds, 3),
            }
        )
        return
    said = f"{report.new:,} new, {report.changed:,} changed, {report.same:,} the same"
    if replace:
        said += f", {report.ended:,} ended"
    say(f"{count(report.loaded, 'subscription')} loaded in {report.seconds:.1f} s: {said}.")
    if report.loaded:
        ticketless = (
            "" if tickets else " No tickets were given: --force renews, changes or ends one."
        )
        say(f"Lease: {end_text(report.expires)}.{ticketless}")


def _names(text: str | None) -> list[str] | tuple[()] | None:
    """The columns that an option names; None if it isn't given."""
    if text is None:
        return None
    return () if text.strip() == "none" else [name.strip() for name in text.split(",")]


@contextmanager
def _ticket_file(path: Path | None) -> Iterator[TextIO | None]:
    """The file for tickets, which only its owner can read. It is made before loading, and deleted if it stays empty."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--tickets") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
    finally:
        if path.stat().st_size == 0:
            path.unlink()
