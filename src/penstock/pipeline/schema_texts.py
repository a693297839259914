"""The schema of events as people write it: `'symbol string, price double'`, or a mapping of names to types.

Spark can read such texts, too, but takes many seconds to start. Files and command lines are checked before that.
"""

import json
import re
from collections.abc import Mapping

from penstock.base.durations import quote_briefly
from penstock.base.errors import SchemaError
from penstock.language import Schema, SchemaLike

_FIELD = re.compile(
    r"""\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s:`*(),;]+))
        (?:\s*:\s*|\s+)(?P<type>.*?\S)
        (?:\s+NOT\s+NULL)?(?:\s+COMMENT\s+'[^']*')?\s*""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)


def read_schema(schema: str | SchemaLike) -> Schema:
    """The schema that a text or a mapping describes. A mapping may be Spark's own JSON form.

    >>> print(read_schema("at timestamp, venue struct<name: string, floor: int>, `odd name`: int NOT NULL"))
    struct<at: timestamp, venue: struct<name: string, floor: integer>, odd name: integer>
    """
    if isinstance(schema, str):
        return Schema.of(_ddl_fields(schema))
    is_mapping = isinstance(schema, Mapping)
    if is_mapping and schema.get("type") == "struct" and isinstance(schema.get("fields"), list):
        return Schema.from_json(json.dumps(schema))
    return Schema.of(schema)


def _ddl_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in _top_level(text):
        found = _FIELD.fullmatch(part)
        if found is None:
            raise SchemaError(
                f"attribute {quote_briefly(part.strip())} has no type: write 'symbol string, price double'"
            )
        name = (found["quoted"] or found["name"]).replace("``", "`")
        if name in fields:
            raise SchemaError(f"attribute {name!r} stands there twice")
        fields[name] = found["type"]
    return fields


def _top_level(text: str) -> list[str]:
    """Split at the commas that are outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        else:
            depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
