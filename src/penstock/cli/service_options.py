"""The service that a command line names, and a client of it."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.server.remote.client import Client

DEFAULT_SERVER = "http://localhost:8400"

_URL = typer.Option(
    "--server",
    envvar="PENSTOCK_SERVER",
    metavar="URL",
    help=f"A running service (penstock serve): {DEFAULT_SERVER}.",
    show_default=False,
)
ServerUrl = Annotated[str, _URL]
MaybeServer = Annotated[str | None, _URL]
ServiceKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="PENSTOCK_KEY",
        metavar="KEY",
        help="An API key, if the service asks for one.",
        show_default=False,
    ),
]


def open_client(url: str, key: str | None, patience: str = "0 seconds") -> "Client":
    """A client of the service. By default nothing is tried twice, so that a person sees at once if it doesn't run."""
    from penstock.server.remote.client import Client

    return Client(url, key, patience=patience)


def refuse_with_server(**given: object) -> None:
    """Refuse options about a registry: a service has its own."""
    for name, value in given.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                "not with --server: the service has its own", param_hint=option
            )
