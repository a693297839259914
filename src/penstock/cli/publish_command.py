"""`penstock publish`: publishes the records of a file, or of standard input as they come, to a running service."""

import contextlib
import csv
import json
import re
import select
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.base.errors import PenstockError
from penstock.cli.progress import Phases
from penstock.cli.service_options import DEFAULT_SERVER, ServerUrl, ServiceKey, open_client
from penstock.cli.terminal import REFUSED, complain, count, put_json, report_errors, say

if TYPE_CHECKING:
    from penstock.server.remote.client import Client

STDIN = "-"
_FLUSHED = 10_000  # records after which refusals are reported
_SHOWN = 1_000  # records between two changes of the remark on progress
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")

Form = Literal["json", "csv", "document"]


@report_errors()
def publish(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Lines of JSON, a JSON array, CSV with a header, or an XML document. - for stdin.",
        ),
    ],
    server: ServerUrl = DEFAULT_SERVER,
    key: ServiceKey = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="They are changes of this table.", show_default=False),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="By default as the name ends.", show_default=False),
    ] = None,
    producer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Leave out what NAME has published before.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON.")] = False,
) -> None:
    """Publish events, changes of a table, or a document.

    When it ends, everything is on the service's disk and will be matched. What
    the service refuses is said with the reasons, and the rest is published;
    then the exit code is 1. In CSV, what looks like a number is one.

    Published twice, a file counts twice. With --producer the service counts
    what came under that name, and leaves out as many records from the
    beginning: the same file again brings nothing, one that has grown what is
    new, and after a run that was cut off the rest. Give each file a name of
    its own. The service forgets a name 30 days after its last record.

    Examples:
    penstock publish events.jsonl
    echo '{"symbol": "GOOG", "price": 550}' | penstock publish -
    tail -f ticks.jsonl | penstock publish - --server http://market:8400
    penstock publish stocks.csv --table Stocks
    penstock publish ticks.jsonl --producer ticks
    penstock publish news.xml
    """
    chosen = form or _form_of(file)
    outcome = _Outcome()
    with _opened(file) as text, open_client(server, key, "1 minute") as client:
        try:
            if producer is not None:
                records = None if chosen == "document" else _records(text, chosen)
                outcome.publish_once(client, producer, records, table, text)
            elif chosen == "document":
                client.publish_document(text.read())
            else:
                _send(client, _records(text, chosen), table, outcome, live=file == STDIN)
        except KeyboardInterrupt:
            say("interrupted: what was read is published")
        outcome.settle(client)
    if as_json:
        shown = {"accepted": outcome.accepted, "refused": outcome.refused, "last": outcome.last}
        put_json(shown if producer is None else {**shown, "before": outcome.before})
    else:
        refused = f", {outcome.refused:,} refused" if outcome.refused else ""
        before = f", {outcome.before:,} were before" if outcome.before else ""
        say(f"{count(outcome.accepted, 'record')} published{before}{refused}.")
    if outcome.refused:
        raise typer.Exit(REFUSED)


@dataclass
class _Outcome:
    """The outcome of the records so far."""

    accepted: int = 0
    refused: int = 0
    last: int | None = None
    before: int = 0

    def publish_once(
        self,
        client: "Client",
        producer: str,
        records: Iterator[Mapping[str, Any]] | None,
        table: str | None,
        text: IO[str],
    ) -> None:
        """Publish what the producer hasn't published yet: records, or a document."""
        from penstock.base.errors import RecordsRefused

        try:
            if records is None:
                sent = client.publish_document_once(producer, text.read())
            else:
                sent = client.publish_once(producer, records, table)
            self.accepted, self.before, self.last = sent.accepted, sent.before, sent.last
        except RecordsRefused as error:
            self.accepted, self.refused = error.accepted, error.count
            complain(str(error))

    def settle(self, client: "Client") -> None:
        """Wait for the answers to all records so far, and report refusals."""
        from penstock.base.errors import RecordsRefused

        try:
            sent = client.flush()
            self.accepted += sent.accepted
            self.last = sent.last or self.last
        except RecordsRefused as error:
            self.accepted += error.accepted
            self.refused += error.count
            complain(str(error))


def _send(
    client: "Client",
    records: Iterator[Mapping[str, Any]],
    table: str | None,
    outcome: _Outcome,
    *,
    live: bool,
) -> None:
    """Publish records as they are read. If the source is `live`, wait for the answers whenever it pauses."""
    with Phases() if sys.stderr.isatty() else contextlib.nullcontext() as phases:
        if phases is not None:
            phases.begin("publishing")
        for number, record in enumerate(records, 1):
            if table is None:
                client.publish(record)
            else:
                client.publish_changes(table, record)
            if number % _FLUSHED == 0 or (live and not _more_is_there()):
                outcome.settle(client)
            if phases is not None and number % _SHOWN == 0:
                phases.describe(f"publishing: {number:,} records")


def _more_is_there() -> bool:
    """Whether standard input has more to read at this moment."""
    try:
        return bool(select.select([sys.stdin], [], [], 0)[0])
    except (OSError, ValueError):  # it isn't a file
        return True


def _form_of(file: str) -> Form:
    """The form of the records in a file, judged by its name.

    >>> _form_of("ticks.csv"), _form_of("-"), _form_of("news.xml")
    ('csv', 'json', 'document')
    """
    return {".csv": "csv", ".xml": "document"}.get(Path(file).suffix.lower(), "json")  # type: ignore[return-value]


def _opened(file: str) -> "contextlib.AbstractContextManager[IO[str]]":
    if file == STDIN:
        return contextlib.nullcontext(sys.stdin)
    return open(file, encoding="utf-8", newline="")


def _records(text: IO[str], form: Form) -> Iterator[Mapping[str, Any]]:
    """The records of a file. They should be mappings; the client refuses any others."""
    if form == "csv":
        for row in csv.DictReader(text):
            yield {
                name: _csv_value(value) for name, value in row.items() if value not in (None, "")
            }
        return
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            if number > 1:
                raise _not_json(f"line {number}: {error}") from None
            found = _whole(line + text.read())
        yield from found if isinstance(found, list) else [found]


def _whole(text: str) -> Any:
    """A JSON document that takes more than a line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _not_json(str(error)) from None


def _not_json(reason: str) -> PenstockError:
    return PenstockError(
        f"not JSON: {reason}\n  give lines of JSON objects, an array of them, or --format"
    )


def _csv_value(text: str) -> Any:
    """A value of CSV. What looks like a number or a truth value is one.

    >>> [_csv_value(text) for text in ("5", "5.25", "-1e3", "true", "GOOG", "007", "inf")]
    [5, 5.25, -1000.0, True, 'GOOG', '007', 'inf']
    """
    if _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text)
    return {"true": True, "false": False}.get(text.lower(), text)
