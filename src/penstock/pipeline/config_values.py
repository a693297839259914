"""The base of all files of settings: models that refuse unknown keys, and types of values that are checked.

Text isn't accepted for a number, nor a number for text. A check raises a `ValueError` with the part of the message that
follows the key, or a `PenstockError` with the whole message. Nothing here needs Spark: a broker has such a file, too.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from penstock.base.errors import PenstockError, SchemaError
from penstock.base.locations import is_remote, local_path, path_of
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.pipeline.config_words import REFUSED, describe_kind
from penstock.pipeline.schema_texts import read_schema

_SHOWN = 300  # characters of what is wrong with a schema


def refusing(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A check of another module, with its error turned into one of those that pydantic collects."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except PenstockError as error:
            raise PydanticCustomError(REFUSED, "{reason}", {"reason": str(error)}) from error

    return run


def check_with(check: Callable[[Any], object]) -> AfterValidator:
    """Runs a check of another module on a value, and leaves the value as it is."""
    return AfterValidator(refusing(lambda value: (check(value), value)[1]))


def check_writable(path: str) -> str:
    """Checks that a folder exists and can be written, or can be made."""
    if is_remote(path):
        return path
    folder = local_path(path, "").absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f" {path} is a file: give a folder")
    nearest = next(f for f in (folder, *folder.parents) if f.exists())
    if not nearest.is_dir():
        raise ValueError(f" {path}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f" {path}: {nearest} can't be written")
    return path


def _check_own_folder(path: str, info: ValidationInfo) -> str:
    """Checks a folder in which Penstock keeps files of its own."""
    refusing(lambda value: path_of(value, str(info.field_name)))(path)
    return check_writable(path)


def check_schema(schema: Any) -> Any:
    """Checks a schema as files have it, and reads it if it is `@FILE`. Raises ValueError if it isn't a schema."""
    if not isinstance(schema, str | Mapping):
        kind = describe_kind(schema)
        raise ValueError(
            f" is text like 'symbol string, price double', a mapping or \"@FILE\", not {kind}"
        )
    if isinstance(schema, str) and schema.startswith("@"):
        schema = _schema_in(Path(schema[1:]))
    try:
        if not read_schema(schema).root.fields:
            raise ValueError(" has no attributes")
    except SchemaError as error:
        text = str(error)
        raise ValueError(f": {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}") from error
    return schema


def _schema_in(file: Path) -> str | Mapping[str, Any]:
    """The schema that `@FILE` stands for, as on the command line: text, or a mapping in JSON or YAML."""
    try:
        text = file.read_text(encoding="utf-8").strip()
        read = read_yaml(text)
    except OSError as error:
        raise ValueError(f": {file}: {error.strerror}") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise ValueError(f": {file}: {error}") from None
    return read if isinstance(read, Mapping) else text


def _plain(value: Any) -> str:
    """A YAML scalar as Spark writes it: true, not True."""
    if value is None or isinstance(value, list | Mapping):
        raise ValueError(f" is text, a number or a boolean, not {describe_kind(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


Text = Annotated[str, Field(pattern=r"\S")]
OwnFolder = Annotated[Text, AfterValidator(_check_own_folder)]
Settings = dict[
    Annotated[str, BeforeValidator(str)],
    Annotated[
        str,
        BeforeValidator(_plain),
        WithJsonSchema({"type": ["string", "number", "boolean"]}),
    ],
]


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """A key without a value counts as missing. An unknown one stays, and is refused."""
        if not isinstance(value, Mapping):
            return value
        return {k: v for k, v in value.items() if v is not None or k not in cls.known_keys()}

    @classmethod
    def known_keys(cls) -> list[str]:
        """The part's keys as they stand in a file."""
        return [field.alias or name for name, field in cls.model_fields.items()]


def make_from(
    part: Any, make: Callable[[Any], object] = lambda checked: checked.make()
) -> GetPydanticSchema:
    """The type of a value that is made of a part of the file."""
    made = refusing(make)
    return GetPydanticSchema(
        lambda _, handler: no_info_after_validator_function(made, handler.generate_schema(part))
    )
