"""Reads what a command line gives with `--event`: an event, a tuple of each table, or a document."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.terminal import read_text

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.registry.kinds import Kind
    from penstock.views.documents.documents import Documents

EventText = Annotated[
    str,
    typer.Option(
        "--event",
        "-e",
        metavar="JSON",
        help="The event; of a select-join a tuple of each table, by name; of a tree pattern the document. "
        "@FILE, or - for stdin.",
    ),
]
KindName = Literal["filter", "select-join", "tree-pattern"]


def read_event(text: str) -> Mapping[str, Any]:
    """An event, or tuples by table: a JSON object."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--event") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("an event is one JSON object", param_hint="--event")
    return value


def read_document(text: str) -> "Documents":
    """A document in XML or JSON; its beginning says which."""
    from penstock.views.documents.json_documents import read_json
    from penstock.views.documents.xml_documents import read_xml

    read = read_json if text.lstrip()[:1] in ("{", "[") else read_xml
    return read([text])


def event_text(given: str) -> str:
    """The text of `--event`, or of the file or standard input that it names."""
    return read_text(given, "--event")


def kind_for(text: str, catalog: "Catalog | None", given: KindName | None) -> "Kind":
    """The kind of subscriptions that an event is for: `given`, or else judged by the event's text.

    XML is for tree patterns, an object with a tuple of each of some tables for select-joins, any other for filters.
    """
    from penstock.registry.kinds import FILTER, KINDS, SELECT_JOIN, TREE_PATTERN

    if given is not None:
        return next(kind for kind in KINDS if kind.name == given)
    if text.lstrip()[:1] == "<":
        return TREE_PATTERN
    if catalog is None:
        return FILTER
    event = read_event(text)
    tables = [name for name, _ in catalog.declared]
    of_tables = event and all(
        name in tables and isinstance(value, Mapping) for name, value in event.items()
    )
    return SELECT_JOIN if of_tables else FILTER


def misspelt_keys(event: Mapping[str, Any], attributes: Iterable[str]) -> list[str]:
    """Warnings about keys of an event that nearly are attributes: for filters, the attributes that were meant are NULL.

    >>> misspelt_keys({"prise": 5, "size": 1}, ["price", "size"])
    ["the event's key 'prise' is no attribute: did you mean 'price'?"]
    """
    from penstock.language.syntax import nearest_name

    known = {name.lower(): name for name in attributes}
    given = dict(_paths(event))
    missing = [name for low, name in known.items() if low not in given]
    found = []
    for low, name in given.items():
        if low in known or any(one.startswith(f"{low}.") for one in known):
            continue
        close = nearest_name(name, missing)
        if close is not None:
            found.append(f"the event's key {name!r} is no attribute: did you mean {close!r}?")
    return found


def _paths(event: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """The dotted paths to the values of an event, in small letters and as they are."""
    found: list[tuple[str, str]] = []
    for name, value in event.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            found += _paths(value, f"{path}.")
        else:
            found.append((path.lower(), path))
    return found
