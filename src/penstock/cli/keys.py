"""`penstock keys add | list | remove`: who may use a service, and for what."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import AsJson
from penstock.cli.plain_help import PlainCommand, PlainGroup
from penstock.cli.terminal import put, put_json, put_row, report_errors, say

if TYPE_CHECKING:
    from penstock.server.web.api_keys import ApiKeys

DataFolder = Annotated[
    Path, typer.Option("--data", metavar="FOLDER", help="The service's data folder.")
]
_DEFAULT = Path("penstock-data")
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called.")]

app = typer.Typer(
    name="keys",
    cls=PlainGroup,
    no_args_is_help=True,
    help="Who may use a service: add, list and remove API keys.",
)


@report_errors()
def add(
    name: KeyName,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE",
            help="publish, subscribe, metrics or admin. May be given several times.",
        ),
    ],
    subscriber: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The only subscriber that it speaks for.", show_default=False
        ),
    ] = None,
    data: DataFolder = _DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it: the only time that it can be seen.

    A service that runs takes it over within a second. As long as there is no
    key, a service is open to all on its machine, and to nobody else.

    Examples:
    penstock keys add feeder --scope publish
    penstock keys add alice --scope subscribe --subscriber alice
    penstock keys add ops --scope admin --data /var/lib/penstock
    """
    from penstock.base.durable import make_folder

    make_folder(data)
    keys = _open(data)
    try:
        key = keys.add(name, scope, subscriber)
    finally:
        keys.close()
    if as_json:
        put_json({"name": name, "key": key, "scopes": sorted(scope), "subscriber": subscriber})
        return
    put(key)
    say("Keep it: only its hash is stored. Send it as 'Authorization: Bearer …'.")


@report_errors()
def list_(data: DataFolder = _DEFAULT, as_json: AsJson = False) -> None:
    """List keys: name, scopes, subscriber, since when.

    Examples:
    penstock keys list
    """
    keys = _there(data)
    try:
        found = keys.list()
    finally:
        keys.close()
    for key in found:
        scopes, since = sorted(key.scopes), key.created.isoformat(timespec="seconds")
        if as_json:
            row = {"name": key.name, "scopes": scopes, "subscriber": key.subscriber}
            put_json({**row, "created": since})
        else:
            put_row(key.name, ",".join(scopes), key.subscriber or "-", since)


@report_errors()
def remove(name: KeyName, data: DataFolder = _DEFAULT) -> None:
    """Remove a key. A service that runs refuses it within a second.

    Examples:
    penstock keys remove feeder
    """
    keys = _there(data)
    try:
        keys.remove(name)
    finally:
        keys.close()
    say(f"The key {name} is gone.")


def _open(data: Path) -> "ApiKeys":
    from penstock.server.web.api_keys import ApiKeys

    return ApiKeys(data / "service.db")


def _there(data: Path) -> "ApiKeys":
    from penstock.base.errors import PenstockError

    if not (data / "service.db").exists():
        raise PenstockError(f"there is no service in {data}: give its folder with --data")
    return _open(data)


app.command("add", cls=PlainCommand)(add)
app.command("list", cls=PlainCommand)(list_)
app.command("remove", cls=PlainCommand)(remove)
