"""Values in the files of services and brokers: amounts of bytes, lengths of time, files, tables."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from penstock.base.durations import microseconds
from penstock.base.errors import CatalogError
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.joins.catalog import Catalog
from penstock.pipeline.config_values import Text, refusing
from penstock.pipeline.config_words import describe_kind

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {
    f"{unit[0]}ib": 1 << (10 * power) for power, unit in enumerate(("kb", "mb", "gb", "tb"), 1)
}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*", re.IGNORECASE)


def read_bytes(text: Any) -> int:
    """The number of bytes that a text gives.

    >>> read_bytes("64 MB"), read_bytes("1.5 GiB"), read_bytes(4096)
    (64000000, 1610612736, 4096)
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2].lower() not in _UNITS:
        shown = repr(text) if isinstance(text, str) else describe_kind(text)
        raise ValueError(f" is an amount like 64 MB or 2 GiB, not {shown}")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def read_length(text: Any) -> float:
    """The number of seconds that a text gives.

    >>> read_length("250 ms"), read_length("7 days")
    (0.25, 604800.0)
    """
    if not isinstance(text, str):
        raise ValueError(f" is a length of time like 250 ms or 7 days, not {describe_kind(text)}")
    try:
        return microseconds(text) / 1e6
    except ValueError as error:
        raise ValueError(f" {text!r} {error}: write it like 250 ms or 7 days") from None


def read_tables(value: Any) -> Catalog:
    """The catalogue that a mapping describes; `@FILE` names a file with the mapping."""
    if isinstance(value, str) and value.startswith("@"):
        value = _file_of(Path(value[1:]))
    if not isinstance(value, Mapping) or not isinstance(value.get("tables"), Mapping):
        raise ValueError(
            ' is "@FILE" or a mapping with tables: {Stocks: {schema: {Symbol: string}, key: Symbol}}'
        )
    try:
        return Catalog.from_json(json.dumps(value))
    except CatalogError as error:
        raise ValueError(": " + "; ".join(error.problems)) from error
    except (TypeError, ValueError) as error:
        raise ValueError(f": {error}") from error


def _file_of(file: Path) -> Any:
    try:
        return read_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f": {file}: {error.strerror}") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise ValueError(f": {file}: {error}") from None


def _check_file(path: str) -> str:
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise ValueError(f" {path}: {error.strerror}") from None


Bytes = Annotated[int, BeforeValidator(read_bytes), WithJsonSchema({"type": ["string", "integer"]})]
Length = Annotated[float, BeforeValidator(read_length), WithJsonSchema({"type": "string"})]
ReadableFile = Annotated[Text, AfterValidator(_check_file)]
Tables = Annotated[
    Catalog,
    BeforeValidator(refusing(read_tables)),
    WithJsonSchema({"type": ["string", "object"]}),
]
