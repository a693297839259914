"""CloudEvents 1.0 over HTTP: binary, structured and batched, with JSON data.

The event has the attributes of `data`, and beside them the context attributes in a struct:

    {"specversion": "1.0", "type": "trade", "source": "/nyse", "id": "1", "data": {"price": 5}}
    {"price": 5, "cloudevent": {"specversion": "1.0", "type": "trade", "source": "/nyse", "id": "1"}}

A filter then says `price > 4 AND cloudevent.type = 'trade'`. In binary mode all context attributes come as text. So
that an event is the same in every mode, the struct always has them as text, except `time`. If the schema is declared,
the struct has just the fields that it declares.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.language.types import Scalar, Struct
from penstock.server.publishing.attribute_types import BIGINT, BOOLEAN, STRING, TIMESTAMP
from penstock.server.publishing.record_problems import Problem, name_value, shorten
from penstock.server.publishing.record_shapes import count_names

CONTEXT = "cloudevent"
"""The attribute of an event that has a CloudEvent's context attributes."""

_REQUIRED = ("id", "source", "specversion", "type")
_OPTIONAL = ("datacontenttype", "dataschema", "subject", "time")
_CONTEXT_TYPE = Struct(
    tuple((name, TIMESTAMP if name == "time" else STRING) for name in (*_REQUIRED, *_OPTIONAL))
)
_HEADER = "ce-"
_NAME = re.compile(r"[a-z0-9]{1,64}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def with_context(root: Struct) -> Struct:
    """A learned schema, with the context attributes added if it lacks them."""
    if any(name == CONTEXT for name, _ in root.fields):
        return root
    return Struct((*root.fields, (CONTEXT, _CONTEXT_TYPE)))


def has_context_headers(headers: Mapping[str, str]) -> bool:
    """Whether a request is a CloudEvent in binary mode."""
    return "ce-specversion" in headers


def read_structured(body: bytes, root: Struct, learn: bool) -> bytes | Problem:
    """The event of one CloudEvent in JSON format."""
    try:
        return _structured(body, root, learn)
    except Problem as problem:
        return problem


def read_batch(parts: Iterable[bytes], root: Struct, learn: bool) -> Iterator[bytes | Problem]:
    """The events of a batch."""
    for part in parts:
        yield read_structured(part, root, learn)


def read_binary(
    content_type: str, headers: Mapping[str, str], body: bytes, root: Struct, learn: bool
) -> bytes | Problem:
    """The event whose context attributes are headers, and whose data is the body."""
    try:
        context: dict[str, Any] = {
            name.removeprefix(_HEADER): _header_value(name, value)
            for name, value in headers.items()
            if name.startswith(_HEADER)
        }
        if "datacontenttype" in context:
            raise Problem("datacontenttype", "is the header Content-Type, not ce-datacontenttype")
        if content_type:
            context["datacontenttype"] = content_type
        _check_context(context)
        return _event(context, body, root, learn)
    except Problem as problem:
        return problem


def _structured(body: bytes, root: Struct, learn: bool) -> bytes:
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except UnicodeError:
        raise Problem(None, "not valid UTF-8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Problem(None, f"not a CloudEvent in JSON: {error}") from None
    if count_names(msgspec.json.encode(members)) != count_names(body):
        raise Problem(None, "an attribute of the CloudEvent stands there twice")
    data = members.pop("data", None)
    base64 = members.pop("data_base64", None)
    if data is not None and base64 is not None:
        raise Problem("data_base64", "stands beside data: a CloudEvent has one of them")
    context = {name: _json_value(name, bytes(raw)) for name, raw in members.items()}
    context = {name: value for name, value in context.items() if value is not None}
    _check_context(context)
    if base64 is not None:
        return _event(context, _from_base64(base64), root, learn)
    return _event(
        context, b"" if data is None or bytes(data) == b"null" else bytes(data), root, learn
    )


def _event(context: dict[str, Any], data: bytes, root: Struct, learn: bool) -> bytes:
    media = (
        str(context.get("datacontenttype", "application/json")).partition(";")[0].strip().lower()
    )
    if data and not (media.endswith(("/json", "+json"))):
        raise Problem("data", f"is {shorten(media)!r}: events are published as JSON objects")
    data = data.strip(b" \t\r\n")
    if data and data[:1] != b"{":
        raise Problem("data", "is not a JSON object: its attributes are those of the event")
    kept = _kept_context(context, root, learn)
    inner = data[1:-1].strip(b" \t\r\n") if data else b""
    if kept is None:
        return data or b"{}"
    return b'{"%b":%b%b%b}' % (
        CONTEXT.encode(),
        msgspec.json.encode(kept),
        b"," if inner else b"",
        inner,
    )


def _kept_context(context: dict[str, Any], root: Struct, learn: bool) -> dict[str, Any] | None:
    declared = dict(root.fields).get(CONTEXT)
    if learn:
        return {name: _text(value) for name, value in context.items()}
    if not isinstance(declared, Struct):
        return None
    types = dict(declared.fields)
    return {
        name: _typed(value, types[name]) if isinstance(types[name], Scalar) else value
        for name, value in context.items()
        if name in types
    }


def _typed(value: Any, type_: Any) -> Any:
    """A context attribute in its declared type: in binary mode, numbers and truth values come as text."""
    if type_ in (BIGINT, BOOLEAN) and isinstance(value, str):
        try:
            return msgspec.convert(value, int if type_ == BIGINT else bool, strict=False)
        except msgspec.ValidationError:
            return value
    return _text(value) if type_ in (STRING, TIMESTAMP) else value


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else "true"
        if value is True
        else "false"
        if value is False
        else str(value)
    )


def _check_context(context: Mapping[str, Any]) -> None:
    for name in _REQUIRED:
        value = context.get(name)
        if not isinstance(value, str) or not value:
            raise Problem(name, f"every CloudEvent has a text {name!r} that isn't empty")
    if context["specversion"] != "1.0":
        found = name_value(context["specversion"])
        raise Problem("specversion", f"CloudEvents of version '1.0' are taken, not {found}")
    for name, value in context.items():
        if not _NAME.fullmatch(name):
            raise Problem(
                shorten(name), "names of CloudEvents attributes are lower-case letters and digits"
            )
        if isinstance(value, str) and _CONTROL.search(value):
            raise Problem(name, "has a control character")
        if name in _OPTIONAL and not isinstance(value, str):
            raise Problem(name, f"a text is expected, not {name_value(value)}")
    if "time" in context:
        _check_time(context["time"])


def _check_time(value: str) -> None:
    try:
        found = msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        found = None
    if found is None or found.tzinfo is None:
        wanted = 'a time with its zone like "2026-01-31T12:00:00Z"'
        raise Problem("time", f"{wanted} is expected, not {name_value(value)}")


def _json_value(name: str, raw: bytes) -> Any:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Problem(shorten(name), "can't be read") from None
    if isinstance(value, dict | list | float):
        raise Problem(
            shorten(name), f"a text, an integer, true or false is expected, not {name_value(value)}"
        )
    return value


def _header_value(name: str, value: str) -> str:
    """Undo the quoting of HTTP, then percent-encoding, each once (HTTP binding §3.1.3.2)."""
    value = _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1]), value)
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise Problem(name, "has percent signs that don't spell UTF-8") from None


def _from_base64(raw: msgspec.Raw) -> bytes:
    try:
        return b64decode(msgspec.json.decode(raw, type=str), validate=True)
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise Problem("data_base64", "is no Base64") from None
