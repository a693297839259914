"""What is wrong with a pipeline file, in words: what pydantic finds, said as Penstock says it.

sink.format 'parket': did you mean 'parquet'?        checkpoint is text, not a number (5)
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

REFUSED = "refused"
"""The type of an error whose reason is the whole message."""

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
    "sink": "a mapping with a format",
    "dead_letter": "a mapping with a format",
    "spark": "a mapping with master and config",
    "options": "a mapping",
    "config": "a mapping",
    "rows": "a number of rows",
    "arrow": "true or false",
}
"""Values that aren't text, by their keys."""

KnownKeys = Mapping[str, Sequence[str]]
"""The keys of each part of a file, by its own key, or the format of a sink; "" is the whole file."""


def problems_of(error: ValidationError, known: KnownKeys) -> list[str]:
    """A sentence for each error, unknown keys first: often one is what another misses."""
    found = sorted(error.errors(include_url=False), key=lambda one: one["type"] not in _UNKNOWN)
    return [_sentence(one, known) for one in found]


def _sentence(error: ErrorDetails, known: KnownKeys) -> str:
    steps = tuple(map(str, error["loc"]))
    # Pydantic puts the format of a sink after its key, which isn't so in the file.
    is_sink = steps[:1] in (("sink",), ("dead_letter",))
    place = steps[:1] + steps[2:] if is_sink else steps
    where, found = ".".join(place), error["input"]
    match error["type"]:
        case "refused":
            return str(error["ctx"]["reason"])
        case "value_error":
            return f"{where}{error['ctx']['error']}".strip()
        case "extra_forbidden" | "invalid_key":
            prefix = where.removesuffix(place[-1])
            part = steps[-2] if prefix else ""
            keys = known[part if part in known else steps[-3]]  # of a table: those of all tables
            return f"unknown key '{where}': {_hint(place[-1], keys, prefix)}"
        case "missing":
            return f"missing key '{where}'"
        case "union_tag_not_found" | "union_tag_invalid":
            given = found.get("format")
            if given is None:
                return f"missing key '{where}.format'"
            formats = error["ctx"]["expected_tags"].replace("'", "").split(", ")
            return f"{where}.format {given!r}: {_hint(str(given), formats)}"
        case "greater_than_equal" | "greater_than":
            return f"{where} is {_EXPECTED[place[-1]]}, not {found!r}"
    if not place:
        kind = describe_kind(found)
        return f"a pipeline description is a mapping of keys to values, not {kind}"
    return f"{where} is {_EXPECTED.get(place[-1], 'text')}, not {describe_kind(found)}"


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
