"""A pipeline from a YAML file, with the whole file checked before anything starts.

    name: market
    subscriptions: sqlite:///subs.db
    events:
      format: json
      path: ticks/
      schema: {symbol: string, price: double, at: timestamp}
      options: {maxFilesPerTrigger: 10}
    tables:
      Stocks: {format: json, path: stocks/}
      Reviews: {format: json, path: reviews/}
    documents: {format: binaryFile, path: news/}
    sink: {format: parquet, path: notifications/}
    checkpoint: checkpoint/

The models here, in `config_parts` and in `sink_parts` say what a file may hold. Pydantic checks a file against them,
and makes of them the JSON Schema by which an editor checks it. Everything that is wrong is reported at once, in one
`ConfigError` (`config_words`): misspelt keys, missing ones, values of the wrong type, types that don't exist, folders
that can't be read or written. Paths are relative to the working folder.
"""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pyspark.sql import SparkSession

from penstock.base.errors import ConfigError
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.matching import check_engine
from penstock.operators.define import Operators
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.config_parts import (
    EventSourcePart,
    JoinsPart,
    OwnSchemaPart,
    SparkPart,
    ViewsPart,
    WindowPart,
)
from penstock.pipeline.config_values import (
    OwnFolder,
    Part,
    Text,
    check_with,
    check_writable,
    make_from,
)
from penstock.pipeline.config_words import problems_of
from penstock.pipeline.intakes import ViewOptions
from penstock.pipeline.joins.match import JoinOptions
from penstock.pipeline.schema_texts import read_schema
from penstock.pipeline.session import local_session
from penstock.pipeline.sink_parts import (
    ConsoleSinkPart,
    DeadLetterSink,
    FeedSinkPart,
    FolderSinkPart,
    KafkaSinkPart,
    MadeSink,
    NatsSinkPart,
    NetworkSinkPart,
    PostgreSQLSinkPart,
    PythonSinkPart,
    WebhookSinkPart,
    WhenPart,
)
from penstock.pipeline.sources import Source
from penstock.pipeline.streaming import Pipeline
from penstock.pipeline.triggers import trigger_of


def _check_registry(url: str) -> str:
    """A SQLite registry must exist. If a misspelt name made a new one, the pipeline would never match anything."""
    path = url.removeprefix("sqlite:///")
    if "://" not in path and not Path(path).is_file():
        raise ValueError(f" {url}: there is no such registry ('penstock subscribe' makes one)")
    return url


def _check_metrics(path: str) -> str:
    check_writable(str(Path(path).parent))
    return path


class PipelineConfig(Part):
    """What a pipeline file says, checked; its source and its sinks are made."""

    name: Text | None = None
    """of the query, in Spark's UI and in metrics"""
    subscriptions: Annotated[Text, AfterValidator(_check_registry)]
    """the registry: sqlite:///subs.db, a file, or postgresql://user@host/database"""
    events: Annotated[Source, make_from(EventSourcePart)] | None = None
    """where events come from, for filters"""
    tables: dict[str, Annotated[Source, make_from(OwnSchemaPart)]] | None = None
    """where changes of tables come from, for select-joins: by the names of the registry's catalogue"""
    documents: Annotated[Source, make_from(OwnSchemaPart)] | None = None
    """where documents come from, for tree patterns"""
    joins: Annotated[JoinOptions, make_from(JoinsPart)] = JoinOptions()
    """how changes of tables are written"""
    views: Annotated[ViewOptions, make_from(ViewsPart)] = ViewOptions()
    """what documents are like, and how views are fed"""
    sink: MadeSink
    """where notifications go; a list of sinks: each gets them, or those that its `when` lets through"""
    checkpoint: OwnFolder
    """the folder in which the pipeline keeps how far it is"""
    dead_letters: DeadLetterSink | None = None
    """where bad records go; by default penstock/dead-letters in the checkpoint folder"""
    snapshots: OwnFolder | None = None
    """a folder or URI that every worker can read and write; by default penstock/snapshots in the checkpoint folder"""
    trigger: Annotated[Text, check_with(trigger_of)] = "1 second"
    """an interval like 500 ms or 1 minute; available-now ends when everything that is there has been read"""
    event_time: Text | None = None
    """the attribute that tells when an event happened: latency is counted from there"""
    event_id: Text | None = None
    """the attribute that tells which event it is"""
    engine: Annotated[Text, check_with(check_engine)] = "auto"
    """auto, batch, tree, mbd or naive; options follow the name, as in tree:collapse=no"""
    operators: Annotated[Text, check_with(lambda name: Operators.of(name).portable())] | None = None
    """those that filters may call: a module, or module:NAME"""
    strategy: Annotated[Text, check_with(check_strategy)] = DEFAULT_STRATEGY
    """the order in which operators are called"""
    metadata: bool = False
    """whether notifications carry the metadata of their subscriptions"""
    digests: Annotated[Text, check_with(trigger_of)] | None = None
    """how often digests that are due are looked for, like 1 minute; without it none are sent"""
    metrics: Annotated[Text, AfterValidator(_check_metrics)] | None = None
    """a file for the figures of each micro-batch, as JSON lines"""
    spark: SparkPart = SparkPart()

    @field_validator("event_time", "event_id")
    @classmethod
    def _check_attribute(cls, path: str, info: ValidationInfo) -> str:
        source = info.data.get("events")  # absent if something is wrong with it
        if source is None or source.schema is None:
            return path
        schema = read_schema(source.schema)
        if schema.find(tuple(path.split("."))) is None:
            hint = schema.suggestion(path)
            suggested = f": did you mean {hint!r}?" if hint else ""
            raise ValueError(f": the events have no attribute {path!r}{suggested}")
        return path

    @model_validator(mode="after")
    def _check_inputs(self) -> Self:
        if all(one is None for one in (self.events, self.tables, self.documents)):
            raise ValueError("there is nothing to read: give events, tables or documents")
        return self

    def session(self) -> SparkSession:
        """The Spark session that the file asks for."""
        return local_session(self.spark.master, self.name or "penstock", self.spark.config)

    def build(self, spark: SparkSession | None = None) -> Pipeline:
        """The pipeline, on the given session or on the file's own."""
        given = {name: value for name, value in self if name != "spark"}
        return Pipeline(**given, spark=spark or self.session())


_PARTS: dict[str, type[Part]] = {
    "": PipelineConfig,
    "events": EventSourcePart,
    "tables": OwnSchemaPart,
    "documents": OwnSchemaPart,
    "joins": JoinsPart,
    "windows": WindowPart,
    "views": ViewsPart,
    "spark": SparkPart,
    **dict.fromkeys(("parquet", "json", "delta"), FolderSinkPart),
    "kafka": KafkaSinkPart,
    "postgresql": PostgreSQLSinkPart,
    "feeds": FeedSinkPart,
    "nats": NatsSinkPart,
    "network": NetworkSinkPart,
    "webhook": WebhookSinkPart,
    "when": WhenPart,
    "console": ConsoleSinkPart,
    "python": PythonSinkPart,
}
KNOWN_KEYS = {name: part.known_keys() for name, part in _PARTS.items()}
"""The keys of each part, by the key of the part; of a sink, by its format."""


# --- reading one --------------------------------------------------------------------------------


def read_config(path: str | Path) -> PipelineConfig:
    """Read and check a pipeline file. Raises a `ConfigError` with everything that is wrong with it."""
    try:
        value = read_yaml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path} is not YAML that describes a pipeline: {error}"]) from error
    return parse_config(value)


def parse_config(value: Any) -> PipelineConfig:
    """Check a pipeline description as it comes from YAML or JSON.

    >>> parse_config({"evnts": {}, "sink": {"format": "console"}, "subscriptions": "postgresql://h/d"})
    Traceback (most recent call last):
    penstock.base.errors.ConfigError: 2 problems in the pipeline description
      - unknown key 'evnts': did you mean 'events'?
      - missing key 'checkpoint'
    """
    try:
        return PipelineConfig.model_validate(value)
    except ValidationError as error:
        raise ConfigError(problems_of(error, KNOWN_KEYS)) from None


def config_schema() -> dict[str, Any]:
    """The JSON Schema of a pipeline file, by which an editor completes and checks one."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **PipelineConfig.model_json_schema()}
