"""Says what is wrong with a pipeline file: makes sentences of the errors that pydantic finds.

sink.format 'parket': did you mean 'parquet'?        checkpoint is text, not a number (5)
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

REFUSED = "refused"
"""The type of an error whose reason is the whole message."""

ONE, SEVERAL = "one", "several"
"""Steps that pydantic puts between `sink` and its content: one mapping, or a list of them."""

_UNKNOWN = ("extra_forbidden", "invalid_key")
_EXPECTED = {
    "events": "a mapping with a format",
    "documents": "a mapping with a format",
    "tables": "a mapping of tables to sources",
    "joins": "a mapping",
    "views": "a mapping",
    "windows": "a mapping of tables to column and length",
    "alone": "a list of tables",
    "buckets": "a number from 1 on",
    **dict.fromkeys(("capacity", "source_capacity"), "a number above 0"),
    **dict.fromkeys(("alpha", "beta", "thrift"), "a number from 0 on"),
    "explode": "true or false",
    "sink": "a mapping with a format, or a list of such mappings",
    "sink.0": "a mapping with a format",
    "when": "a mapping with kind and subscriber",
    "kind": "a list of kinds",
    "headers": "a mapping",
    **dict.fromkeys(
        ("in_flight", "notifications", "bytes", "connections", "tries"), "a number from 1 on"
    ),
    "dead_letters": "a mapping with a format",
    "sinks": "a list of mappings with a format",
    "sources": "a mapping with events, tables and documents",
    "log": "a mapping with a format",
    "port": "a number from 0 to 65535",
    "tls": "a mapping with certificate and key",
    **dict.fromkeys(("retention", "limits"), "a mapping"),
    **dict.fromkeys(
        ("partitions", "records", "subscriptions", "requests", "burst", "address_connections"),
        "a number from 1 on",
    ),
    **dict.fromkeys(("cors", "hosts"), "a list of texts"),
    "anonymous": "true or false",
    **dict.fromkeys(("listen", "at"), "a list of texts"),
    "network": "a mapping with broker and at",
    "neighbours": "a list of mappings with name, rank and at",
    "rank": "a number from 0 on",
    "threshold": "a number from 0 to 1",
    **dict.fromkeys(("under_way", "window"), "a number from 1 on"),
    "advertisements": "true or false",
    **dict.fromkeys(("times", "zenoh", "nats"), "a mapping"),
    "spark": "a mapping with master and config",
    "options": "a mapping",
    "config": "a mapping",
    "rows": "a number of rows",
    "arrow": "true or false",
}
"""What the value of a key should be, for values that aren't text."""
_HIDDEN = ("secret", "url", "servers")
"""Keys whose values no message repeats."""

KnownKeys = Mapping[str, Sequence[str]]
"""The keys that each part of a file may have. A part is named by its own key, a sink by its format, the file by ""."""


def problems_of(
    error: ValidationError, known: KnownKeys, described: str = "a pipeline description"
) -> list[str]:
    """A sentence for each error, unknown keys first: one of them is often a missing key, misspelt."""
    found = sorted(error.errors(include_url=False), key=lambda one: one["type"] not in _UNKNOWN)
    return [_sentence(one, known, described) for one in found]


def _sentence(error: ErrorDetails, known: KnownKeys, described: str) -> str:
    steps = tuple(map(str, error["loc"]))
    place = _place(steps)
    where, found = ".".join(place), error["input"]
    match error["type"]:
        case "refused":
            return str(error["ctx"]["reason"])
        case "value_error":
            return f"{where}{error['ctx']['error']}".strip()
        case "extra_forbidden" | "invalid_key":
            prefix = where.removesuffix(place[-1])
            part = steps[-2] if prefix else ""
            keys = known[part if part in known else steps[-3]]  # steps[-3]: `part` names a table
            return f"unknown key '{where}': {_hint(place[-1], keys, prefix)}"
        case "missing":
            return f"missing key '{where}'"
        case "union_tag_not_found" | "union_tag_invalid":
            given = found.get("format")
            if given is None:
                return f"missing key '{where}.format'"
            formats = error["ctx"]["expected_tags"].replace("'", "").split(", ")
            return f"{where}.format {given!r}: {_hint(str(given), formats)}"
        case "literal_error":
            known_texts = re.findall("'([^']*)'", error["ctx"]["expected"])
            return f"{where} {found!r}: {_hint(str(found), known_texts)}"
        case "greater_than_equal" | "greater_than" | "less_than_equal":
            return f"{where} is {_EXPECTED[place[-1]]}, not {found!r}"
    if not place:
        kind = describe_kind(found)
        return f"{described} is a mapping of keys to values, not {kind}"
    in_list = place[0] in ("sink", "sinks") and len(place) == 2 and place[1].isdecimal()
    expected = _EXPECTED.get("sink.0" if in_list else place[-1], "text")
    kind = describe_kind(found)
    if place[-1] in _HIDDEN:
        kind = kind.partition(" (")[0]
    return f"{where} is {expected}, not {kind}"


def _place(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The place of a value in the file, without the format of a sink, which pydantic puts before the sink's keys."""
    if steps[:1] in (("dead_letters",), ("log",)):
        return steps[:1] + steps[2:]
    if steps[:1] == ("sinks",):
        return steps[:2] + steps[3:]
    if steps[:2] == ("sink", SEVERAL):
        return steps[:1] + steps[2:3] + steps[4:]
    return steps[:1] + steps[3:] if steps[:2] == ("sink", ONE) else steps


def _hint(given: str, known: Sequence[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"did you mean '{prefix}{close[0]}'?" if close else f"there are {', '.join(known)}"


def describe_kind(value: Any) -> str:
    """What a value is, and the value itself if it is short.

    >>> describe_kind(5), describe_kind(["at"]), describe_kind(None)
    ('a number (5)', 'a list', 'nothing')
    """
    if value is None:
        return "nothing"
    names = {
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a mapping",
    }
    shown = f" ({value!r})" if isinstance(value, str | int | float) else ""
    return names.get(type(value), type(value).__name__) + shown
