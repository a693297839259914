"""The settings of a service, from a YAML file and the command line. All are checked before anything starts.

    data: /var/lib/penstock
    host: 0.0.0.0
    schema: {symbol: string, price: double}
    registry: postgresql://penstock@db/penstock
    log: {format: kafka, servers: "kafka:9092"}
    spark: {master: "spark://master:7077"}
    tls: {certificate: cert.pem, key: key.pem}

A file has the form of pipeline files, and is checked like them (`pipeline.config`): all problems are reported at once,
with hints. The command line takes precedence over the file.
"""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from penstock.base.errors import SettingsError
from penstock.base.locations import is_remote, path_of
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.language import Schema
from penstock.matching import check_engine
from penstock.operators.define import Operators
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.config import KNOWN_KEYS
from penstock.pipeline.config_parts import SparkPart, ViewsPart
from penstock.pipeline.config_values import (
    OwnFolder,
    Part,
    Text,
    check_schema,
    check_with,
    make_from,
)
from penstock.pipeline.config_words import problems_of
from penstock.pipeline.intakes import ViewOptions
from penstock.pipeline.joins.match import JoinOptions
from penstock.pipeline.schema_texts import read_schema
from penstock.pipeline.sink_parts import MadeSinks
from penstock.pipeline.triggers import AVAILABLE_NOW, trigger_of
from penstock.server.network_parts import NatsLinkPart, NetworkPart
from penstock.server.setting_parts import (
    FilesPart,
    KafkaPart,
    LimitsPart,
    LogPart,
    PublishedJoinsPart,
    RetentionPart,
    SourcesPart,
    TlsPart,
    WebhooksPart,
)
from penstock.server.setting_values import Tables
from penstock.server.web.http_settings import HttpSettings

PORT = 8400
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _check_local(path: str) -> str:
    if is_remote(path):
        raise ValueError(f" {path}: the data folder holds databases, give one of this machine")
    return path


def _check_events(schema: Any) -> Any:
    read = read_schema(check_schema(schema))
    if reserved := [name for name, _ in read.root.fields if name.startswith("_")]:
        raise ValueError(f": {reserved[0]!r}: names that begin with _ are the service's own")
    return schema


def _check_interval(trigger: str) -> str:
    if trigger_of(trigger).milliseconds is None:
        raise ValueError(f" {AVAILABLE_NOW!r} would end: give an interval like 1 second")
    return trigger


class Settings(Part):
    """What a service file says, checked."""

    data: Annotated[OwnFolder, AfterValidator(_check_local)] = "penstock-data"
    """the folder in which everything is kept that isn't kept elsewhere"""
    host: Text = LOOPBACK[0]
    """the address that it listens on; 0.0.0.0 is all of them, and needs keys"""
    port: int = Field(PORT, ge=0, le=65_535)
    """0: any that is free"""
    match: Literal["spark", "live"] = "spark"
    """spark: all kinds of subscription; live: filters only, in milliseconds, without Spark"""
    schema_: Annotated[
        Any, AfterValidator(_check_events), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(None, alias="schema")
    """of the events: {symbol: string, price: double}; by default learned from the events that are published"""
    catalog: Tables | None = None
    """the tables that select-joins may name, and along which attributes they are joined: a mapping, or @FILE"""
    registry: Text | None = None
    """where subscriptions are kept; by default registry.db in the data folder"""
    feeds: Text | None = None
    """where notifications are kept, like the registry; by default feeds.db in the data folder"""
    log: LogPart = FilesPart()
    """where Spark reads what is published"""
    checkpoints: OwnFolder | None = None
    """a folder, or with Kafka a URI, that all of Spark's workers can read and write; by default in the data folder"""
    retention: RetentionPart = RetentionPart()
    webhooks: WebhooksPart = WebhooksPart()
    trigger: Annotated[Text, check_with(trigger_of), AfterValidator(_check_interval)] = "1 second"
    """how often Spark looks for something new"""
    digests: Annotated[Text, check_with(trigger_of), AfterValidator(_check_interval)] | None = None
    """how often it looks for digests that are due, like 1 minute; without it, subscriptions to digests are set aside"""
    metadata: bool | None = None
    """whether notifications carry the metadata of their subscriptions; by default as the data folder was begun: not"""
    engine: Annotated[Text, check_with(check_engine)] = "auto"
    """auto, batch, tree, mbd or naive"""
    operators: Annotated[Text, check_with(lambda name: Operators.of(name).portable())] | None = None
    """those that filters may call: a module, or module:NAME"""
    strategy: Annotated[Text, check_with(check_strategy)] = DEFAULT_STRATEGY
    """the order in which operators are called"""
    joins: Annotated[JoinOptions, make_from(PublishedJoinsPart)] = PublishedJoinsPart().make()
    """how changes of tables are written"""
    views: Annotated[ViewOptions, make_from(ViewsPart)] = ViewOptions()
    """how views are fed"""
    sources: SourcesPart = SourcesPart()
    """what is matched besides what is published here"""
    sinks: MadeSinks = ()
    """where notifications go besides feeds: a list of sinks"""
    network: NetworkPart | None = None
    """a broker whose client the service is"""
    spark: SparkPart = SparkPart()
    tls: TlsPart | None = None
    anonymous: bool = False
    """whether anybody may publish, although there are keys"""
    cors: list[Text] = Field(default_factory=list)
    """origins whose pages may use the service, like https://example.org"""
    hosts: list[Text] = Field(default_factory=list)
    """names under which it is reached besides loopback ones, while it is open to all"""
    limits: LimitsPart = LimitsPart()

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """The description from which they were read: in another process `parse_settings` reads it again."""
        return self._given

    @model_validator(mode="after")
    def _check_live(self) -> Self:
        if self.match == "live":
            given = [
                ("log", isinstance(self.log, KafkaPart)),
                ("sources", self.sources != SourcesPart()),
                ("sinks", bool(self.sinks)),
                ("catalog", self.catalog is not None),
                ("checkpoints", self.checkpoints is not None),
            ]
            if wrong := [name for name, is_given in given if is_given]:
                raise ValueError(
                    f"match: live doesn't use {' and '.join(wrong)}, which need Spark: leave them out, or match: spark"
                )
        return self

    @model_validator(mode="after")
    def _check_checkpoints(self) -> Self:
        if self.checkpoints and is_remote(self.checkpoints) and isinstance(self.log, FilesPart):
            raise ValueError(
                f"checkpoints {self.checkpoints}: with files as the log they are in a folder that this machine sees, "
                "since they say which files have been read. Give such a folder, or a log of Kafka"
            )
        return self

    def with_metadata(self, metadata: bool) -> "Settings":
        """The same settings, with `metadata` decided."""
        decided = self.model_copy(update={"metadata": metadata})
        decided._given = {**self._given, "metadata": metadata}
        return decided

    @property
    def folder(self) -> Path:
        return Path(self.data).absolute()

    @property
    def registry_url(self) -> str:
        return self.registry or f"sqlite:///{self.folder / 'registry.db'}"

    @property
    def feeds_url(self) -> str:
        return self.feeds or str(self.folder / "feeds.db")

    @property
    def checkpoint_root(self) -> str:
        if self.checkpoints is None:
            return str(self.folder / "spark" / "checkpoints")
        return str(path_of(self.checkpoints, "checkpoints"))

    @cached_property
    def declared(self) -> Schema | None:
        """The schema of the events, if it is given."""
        return None if self.schema_ is None else read_schema(check_schema(self.schema_))

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK or re.fullmatch(r"127(\.\d+){3}", self.host) is not None

    @property
    def address(self) -> str:
        """The address at which browsers and clients find the service."""
        host = "localhost" if self.host in (*LOOPBACK, "0.0.0.0", "::") else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http{'s' if self.tls else ''}://{shown}:{self.port}"

    @property
    def summary(self) -> str:
        """The service in a few words."""
        matched = "live" if self.match == "live" else f"on Spark ({self.spark.master})"
        return f"{self.data}, matched {matched}"

    def http(self) -> HttpSettings:
        """The settings of the web side."""
        return HttpSettings(self.limits.make(), self.anonymous, tuple(self.cors), tuple(self.hosts))


_KNOWN_KEYS = {
    **KNOWN_KEYS,
    "": Settings.known_keys(),
    "files": FilesPart.known_keys(),
    "kafka": sorted({*KNOWN_KEYS["kafka"], *KafkaPart.known_keys()}),
    "retention": RetentionPart.known_keys(),
    "sources": SourcesPart.known_keys(),
    "tls": TlsPart.known_keys(),
    "webhooks": WebhooksPart.known_keys(),
    "limits": LimitsPart.known_keys(),
    "network": sorted({*KNOWN_KEYS["network"], *NetworkPart.known_keys()}),
    "nats": sorted({*KNOWN_KEYS["nats"], *NatsLinkPart.known_keys()}),
}


def read_settings(path: str | Path | None, given: Mapping[str, Any] | None = None) -> Settings:
    """Read and check a service file, with what the command line gives.

    Raises SettingsError, which lists everything that is wrong.
    """
    value: Any = {}
    if path is not None:
        try:
            value = read_yaml(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError([f"{path}: {error.strerror or error}"]) from error
        except (YamlError, UnicodeDecodeError) as error:
            raise SettingsError(
                [f"{path} is not YAML that describes a service: {error}"]
            ) from error
    if value is None:
        value = {}
    return parse_settings({**value, **(given or {})} if isinstance(value, Mapping) else value)


def parse_settings(value: Any) -> Settings:
    """Check a service description as it comes from YAML or JSON.

    >>> parse_settings({"prt": 8400, "match": "life"})
    Traceback (most recent call last):
    penstock.base.errors.SettingsError: 2 problems in the service description
      - unknown key 'prt': did you mean 'port'?
      - match 'life': did you mean 'live'?
    """
    if isinstance(value, Mapping) and isinstance(log := value.get("log"), Mapping):
        value = {**value, "log": {"format": "files", **log}}
    try:
        found = Settings.model_validate(value)
        found._given = dict(value)
        return found
    except ValidationError as error:
        problems = problems_of(error, _KNOWN_KEYS, "a service description")
        raise SettingsError(problems) from None


def settings_schema() -> dict[str, Any]:
    """The JSON Schema of a service file, by which an editor completes and checks one."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    found = {"$schema": dialect, **Settings.model_json_schema()}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
