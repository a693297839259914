"""A small JSON Schema validator: what `penstock run --schema` uses of the standard, and nothing else.

A keyword that it doesn't know is an error, so a schema that says more than is checked here can't pass unnoticed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_REMARKS = {"$schema", "$defs", "title", "description", "default", "examples", "discriminator"}


def violations(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[str]:
    """What a value has that the schema doesn't allow, or lacks; `root` is the whole schema."""
    return [
        f"{keyword}: {value!r}"
        for keyword, rule in schema.items()
        if keyword not in _REMARKS and any(_broken(keyword, rule, value, schema, root))
    ]


def _broken(keyword: str, rule: Any, value: Any, schema: Any, root: Any) -> Iterator[bool]:
    """True for everything that breaks one keyword's rule."""
    match keyword:
        case "$ref":
            yield bool(violations(value, root["$defs"][rule.removeprefix("#/$defs/")], root))
        case "type":
            yield not any(_is(value, name) for name in ([rule] if isinstance(rule, str) else rule))
        case "const":
            yield value != rule
        case "enum":
            yield value not in rule
        case "pattern":
            yield isinstance(value, str) and re.search(rule, value) is None
        case "minimum":
            yield not isinstance(value, str) and value < rule
        case "maximum":
            yield not isinstance(value, str) and value > rule
        case "exclusiveMinimum":
            yield not isinstance(value, str) and value <= rule
        case "items":
            yield isinstance(value, list) and any(violations(one, rule, root) for one in value)
        case "required":
            yield isinstance(value, dict) and not set(rule) <= set(value)
        case "properties":
            for name, inner in rule.items():
                if isinstance(value, dict) and name in value:
                    yield bool(violations(value[name], inner, root))
        case "additionalProperties":
            more = set(value) - set(schema.get("properties", ())) if isinstance(value, dict) else ()
            for name in more:
                yield rule is False or bool(violations(value[name], rule, root))
        case "anyOf":
            yield all(violations(value, one, root) for one in rule)
        case "oneOf":
            yield sum(not violations(value, one, root) for one in rule) != 1
        case _:
            raise NotImplementedError(keyword)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])
