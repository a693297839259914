"""Pipeline files: read, checked as a whole, and everything that is wrong told at once."""

import os
import subprocess
import sys

import pyspark
import pytest
import yaml
from tests.pages import PAGES, blocks

import penstock
from penstock.base.errors import ConfigError
from penstock.base.yaml_texts import read_yaml
from penstock.delivery import (
    CallableSink,
    ConsoleSink,
    DeltaSink,
    FileSink,
    NatsSink,
    SeveralSinks,
    SinkWhen,
    WebhookLimits,
    WebhookSink,
)
from penstock.pipeline import Source, read_config
from penstock.pipeline.config import config_schema, parse_config
from penstock.pipeline.spark_packages import missing_packages

from .json_schema import violations
from .scenes import delivered, run, tick, write_events

SCHEMA = config_schema()
SECRET = "whsec_" + "A" * 32
EXAMPLES = [
    pytest.param(block.text, id=block.where)
    for page in PAGES
    for block in blocks(page)
    if block.language == "yaml" and "checkpoint:" in block.text
]
"""The pipeline files in README.md and docs/*.md."""


@pytest.fixture
def good(tmp_path):
    """A description that is right."""
    (tmp_path / "in").mkdir()
    url = f"sqlite:///{tmp_path}/subs.db"
    with penstock.Subscriptions.open(url) as subs:
        subs.subscribe("alice", "price > 0")
    return {
        "name": "ticks",
        "events": {
            "format": "json",
            "path": str(tmp_path / "in"),
            "schema": {"id": "bigint", "symbol": "string", "price": "double"},
            "options": {"maxFilesPerTrigger": 10},
        },
        "subscriptions": url,
        "sink": {"format": "parquet", "path": str(tmp_path / "out")},
        "checkpoint": str(tmp_path / "checkpoint"),
    }


def problems(description) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(description)
    return caught.value.problems


def test_a_right_file_gives_its_pipeline(good, tmp_path):
    more = {
        "dead_letters": {"format": "json", "path": str(tmp_path / "dead")},
        "trigger": "available-now",
        "event_id": "id",
        "engine": "naive",
        "metrics": str(tmp_path / "metrics.jsonl"),
        "snapshots": str(tmp_path / "snapshots"),
        "spark": {"master": "local[1]", "config": {"spark.ui.enabled": True, "spark.x": 3}},
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({**good, **more}))
    config = read_config(path)
    assert config.events == Source(**{**good["events"], "options": {"maxFilesPerTrigger": "10"}})
    assert (config.sink, config.dead_letters) == (
        FileSink(str(tmp_path / "out")),
        FileSink(str(tmp_path / "dead"), "json"),
    )
    assert (config.name, config.trigger, config.engine) == ("ticks", "available-now", "naive")
    assert (config.spark.master, config.spark.config) == (
        "local[1]",
        {"spark.ui.enabled": "true", "spark.x": "3"},
    )


@pytest.mark.spark
def test_a_pipeline_from_a_file_runs(good, tmp_path, spark):
    write_events(tmp_path / "in", "1.json", [tick(1), tick(2, price=-1)])
    run(parse_config({**good, "trigger": "available-now"}).build(spark))
    assert delivered(tmp_path / "out") == [(0, 1, 1)]


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    wrong = {
        "nmae": "x",
        "events": {"format": "json", "pth": "in", "schema": {"price": "doble"}},
        "sink": {"format": "parket", "path": "out"},
        "trigger": "often",
        "engine": "warp",
        "checkpoint": 5,
        "event_time": ["at"],
    }
    found = problems(wrong)
    for expected in (
        "unknown key 'nmae': did you mean 'name'?",
        "missing key 'subscriptions'",
        "unknown key 'events.pth': did you mean 'events.path'?",
        "events.schema: attribute 'price': 'doble' is not a type",
        "sink.format 'parket': did you mean 'parquet'?",
        "trigger 'often': give an interval like '1 second'",
        "no engine 'warp'",
        "checkpoint is text, not a number (5)",
        "event_time is text, not a list",
    ):
        assert any(problem.startswith(expected) for problem in found), expected
    with pytest.raises(ConfigError, match="9 problems"):
        parse_config(wrong)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"events": None}, "there is nothing to read"),
        ({"events": "in/"}, "events is a mapping with a format, not text ('in/')"),
        ({"events": {"path": "in"}}, "missing key 'events.format'"),
        ({"sink": {"path": "out"}}, "missing key 'sink.format'"),
        ({"sink": {"format": "parquet"}}, "missing key 'sink.path'"),
        ({"sink": {"format": "console", "rows": -1}}, "sink.rows is a number of rows, not -1"),
        ({"sink": {"format": "console", "rows": "5"}}, "sink.rows is a number of rows, not text"),
        ({"sink": {"format": "console", "path": "x"}}, "unknown key 'sink.path'"),
        ({"sink": {"format": "python"}}, "missing key 'sink.function'"),
        (
            {"sink": {"format": "python", "function": "json:dumps", "arrow": "yes"}},
            "sink.arrow is true or false, not text ('yes')",
        ),
        ({"sink": {"format": "python", "function": "print"}}, "sink.function is 'package.module:"),
        ({"sink": {"format": "python", "function": "no.such:f"}}, "sink.function 'no.such:f'"),
        (
            {"sink": {"format": "python", "function": "os:sep"}},
            "sink.function 'os:sep' is no function",
        ),
        (
            {"sink": 5},
            "sink is a mapping with a format, or a list of such mappings, not a number (5)",
        ),
        ({"sink": []}, "there is no sink in the list of sinks"),
        ({"sink": ["out"]}, "sink.0 is a mapping with a format, not text ('out')"),
        ({"sink": [{"path": "out"}]}, "missing key 'sink.0.format'"),
        ({"sink": [{"format": "parket"}]}, "sink.0.format 'parket': did you mean 'parquet'?"),
        (
            {
                "sink": [
                    {"format": "console"},
                    {"format": "nats", "server": "h", "servers": "nats://h"},
                ]
            },
            "unknown key 'sink.1.server': did you mean 'sink.1.servers'?",
        ),
        (
            {"sink": [{"format": "console", "when": {"kinds": ["filter"]}}]},
            "unknown key 'sink.0.when.kinds': did you mean 'sink.0.when.kind'?",
        ),
        (
            {"sink": [{"format": "console", "when": {"kind": ["filtr"]}}]},
            "sink.0.when.kind.0 'filtr': did you mean 'filter'?",
        ),
        (
            {"sink": {"format": "console", "when": {"kind": "filter"}}},
            "sink.when.kind is a list of kinds, not text ('filter')",
        ),
        (
            {"sink": {"format": "webhook", "url": "https://h", "secret": 12345}},
            "sink.secret is text, not a number",
        ),
        (
            {"sink": {"format": "webhook", "url": "https://h", "secret": "x"}},
            "the secret of a webhook is whsec_",
        ),
        (
            {"sink": {"format": "webhook", "url": "https://h", "secret": SECRET, "tries": 0}},
            "sink.tries is a number from 1 on, not 0",
        ),
        (
            {"dead_letters": {"format": "console", "when": {"subscriber": "a"}}},
            "dead_letters.when: a dead letter has no kind",
        ),
        ({"dead_letters": []}, "dead_letters is a mapping with a format, not a list"),
        ({"checkpoint": "ftp://b/c"}, "checkpoint ftp://b/c: Penstock can't keep files there"),
        ({"subscriptions": "nowhere.db"}, "subscriptions nowhere.db: there is no such registry"),
        (
            {"event_time": "prise"},
            "event_time: the events have no attribute 'prise': did you mean 'price'?",
        ),
        ({"trigger": ""}, "trigger is text, not text ('')"),
        ({"spark": 4}, "spark is a mapping with master and config, not a number (4)"),
        ({"spark": {"conf": {}}}, "unknown key 'spark.conf': did you mean 'spark.config'?"),
        ({"metrics": "/dev/null/x/m.jsonl"}, "metrics /dev/null/x"),
    ],
)
def test_each_mistake_has_its_own_words(good, change, expected):
    (found,) = problems({**good, **change})
    assert found.startswith(expected)
    assert "12345" not in found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"path": "nowhere"}, "events.path nowhere: there is no such folder"),
        (
            {"path": "nowhere", "format": "binaryFile"},
            "events.path nowhere: there is no such folder",
        ),
        ({"schema": None}, "source: a json source needs the schema"),
        ({"schema": 5}, "events.schema is text like"),
        ({"schema": {}}, "events.schema has no attributes"),
        (
            {"schema": "price doble"},
            "events.schema: attribute 'price': 'doble' is not a type",
        ),
        ({"schema": "price double, size"}, "events.schema: attribute 'size' has no type"),
        ({"schema": {"price": {"a": ["int"]}}}, "events.schema:"),
        ({"options": ["x"]}, "events.options is a mapping, not a list"),
        ({"options": {"multiLine": True}}, "source: one record per line"),
        (
            {"options": {"sep": [","]}},
            "events.options.sep is text, a number or a boolean, not a list",
        ),
        ({"record": "xml"}, "source: record is one of json, csv"),
    ],
)
def test_each_mistake_in_a_source_has_its_own_words(good, change, expected):
    (found,) = problems({**good, "events": {**good["events"], **change}})
    assert found.startswith(expected)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(good, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    (found,) = problems({**good, "checkpoint": str(tmp_path / "locked/checkpoint")})
    assert "can't be written" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2]", "a pipeline description is a mapping"),
        ("a: [", "is not YAML"),
        ("", "not nothing"),
    ],
)
def test_a_file_that_is_no_description_is_said_so(tmp_path, text, expected):
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        read_config(path)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_documents_satisfy_the_json_schema(text):
    assert violations(read_yaml(text), SCHEMA, SCHEMA) == []


@pytest.mark.parametrize(
    "change",
    [
        {"nmae": "x"},
        {"checkpoint": 5},
        {"sink": {"format": "parket", "path": "out"}},
        {"sink": {"format": "parquet"}},
        {"sink": {"format": "console", "rows": -1}},
        {"sink": [{"format": "console"}, {"format": "nats"}]},
        {"sink": [{"format": "console", "when": {"kind": ["filtr"]}}]},
        {"sink": {"format": "webhook", "url": "ftp://h", "secret": "x"}},
        {"events": {"format": "json", "record": "xml"}},
        {"events": {"path": "in"}},
        {"spark": {"config": {"a": ["b"]}}},
    ],
)
def test_the_json_schema_refuses_what_the_reader_refuses(good, change):
    assert violations(good, SCHEMA, SCHEMA) == []
    assert violations({**good, **change}, SCHEMA, SCHEMA) != []
    assert problems({**good, **change}) != []


def test_importing_penstock_and_its_registry_does_not_import_pydantic():
    """It takes a tenth of a second, which only pipeline files are worth."""
    code = "import sys, penstock, penstock.registry, penstock.pipeline; print('pydantic' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_config(tmp_path / "nowhere.yaml")


def test_yaml_cannot_run_code(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text("name: !!python/object/apply:os.system ['echo hello']")
    with pytest.raises(ConfigError, match="is not YAML"):
        read_config(path)


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ({"format": "console"}, ConsoleSink()),
        ({"format": "console", "rows": 5}, ConsoleSink(5)),
        ({"format": "delta", "path": "t"}, DeltaSink("t")),
        ({"format": "python", "function": "json:dumps"}, CallableSink(__import__("json").dumps)),
        (
            {"format": "nats", "servers": "nats://h", "stream": "S", "options": {"token": "t"}},
            NatsSink("nats://h", stream="S", options={"token": "t"}),
        ),
        (
            {"format": "webhook", "url": "https://h/x", "secret": SECRET, "tries": 3},
            WebhookSink("https://h/x", SECRET, WebhookLimits(tries=3)),
        ),
        (
            [
                {"format": "console"},
                {"format": "delta", "path": "t", "when": {"kind": ["filter"], "subscriber": "a*"}},
            ],
            SeveralSinks((ConsoleSink(), SinkWhen(DeltaSink("t"), ("filter",), "a*"))),
        ),
        (
            {"format": "console", "when": {"subscriber": "a*"}},
            SeveralSinks((SinkWhen(ConsoleSink(), subscriber="a*"),)),
        ),
    ],
)
def test_every_sink_can_be_named(good, sink, expected):
    assert parse_config({**good, "sink": sink}).sink == expected
    assert violations({**good, "sink": sink}, SCHEMA, SCHEMA) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("symbol string, price double\n", "symbol string, price double"),
        ('{"symbol": "string", "price": "double"}', {"symbol": "string", "price": "double"}),
    ],
)
def test_a_schema_may_be_in_a_file(good, tmp_path, text, expected):
    """As on the command line."""
    (tmp_path / "events.schema").write_text(text)
    events = {**good["events"], "schema": f"@{tmp_path / 'events.schema'}"}
    assert parse_config({**good, "events": events}).events.schema == expected
    with pytest.raises(ConfigError, match="none: No such file"):
        parse_config({**good, "events": {**events, "schema": f"@{tmp_path / 'none'}"}})


def test_packages_that_spark_lacks_are_named_with_their_version(good):
    """Kafka's isn't part of Spark; one that the description names is no matter."""
    events = {"format": "kafka", "schema": "price double", "options": {"subscribe": "t"}}
    [said] = missing_packages(parse_config({**good, "events": events}))
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert package in said
    named = {"config": {"spark.jars.packages": package}}
    assert missing_packages(parse_config({**good, "events": events, "spark": named})) == []
    assert missing_packages(parse_config(good)) == []


@pytest.mark.parametrize(
    "ddl",
    [
        "id bigint, venue struct<country: string, n: int>, tags array<string>",
        "id: bigint, `odd name`: int NOT NULL, note string COMMENT 'a, b'",
        "id bigint, order int, select string",
    ],
)
def test_a_schema_may_be_sql(good, ddl):
    """In every form that Spark reads."""
    config = parse_config({**good, "events": {**good["events"], "schema": ddl}})
    assert config.events.schema == ddl


DOUBLING = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DOUBLING, "line 12, column 4: more than 10,000 values up to here, aliases counted"),
        ("a: &a [*a]", "line 1, column 4: this part contains itself"),
        (
            "sink: {format: json}\nname: x\nsink: 5",
            "line 3, column 1: the key 'sink' stands here twice",
        ),
        ("events: {path: a, path: b}", "line 1, column 19: the key 'path' stands here twice"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply, at most 50 levels"),
        ("a: " + "[" * 30_000, "nested too deeply"),
        ("{" * 30_000, "nested too deeply"),
        ("a: [" + "1," * 10_001 + "]", "more than 10,000 values"),
        ("a: " + "x" * (1 << 20), "at most 1,048,576 are allowed"),
        ("a: " + "9" * 5_000, "line 1, column 4: a number of 5,000 characters"),
        ("a: 2024-13-45", "a value can't be read: month must be in 1..12"),
        ("? [a]\n: b", "line 1, column 3: a key is text"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_written_to_hurt_is_refused_with_its_place(tmp_path, text, expected):
    """Aliases that double, keys that stand twice, nests without end: before anything walks through the values."""
    (tmp_path / "pipeline.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "pipeline.yaml")
    (problem,) = caught.value.problems
    assert expected in problem
    assert len(problem) < 1_000


def test_aliases_that_stay_small_are_read(good, tmp_path):
    """They are a part of YAML, and people use them."""
    text = yaml.safe_dump(good) + "event_id: &id id\nevent_time: null\n"
    (tmp_path / "pipeline.yaml").write_text(text.replace("event_time: null", "event_time: *id"))
    assert read_config(tmp_path / "pipeline.yaml").event_time == "id"


@pytest.mark.parametrize(
    "ddl",
    [
        "price", "a int) AS SELECT 1 --", "PRIMARY KEY (a)", "a int, PRIMARY KEY (a)", "", "1", "a array",
        "a struct<x>", "a int; DROP TABLE x", "LIKE other", "a int, a string", "a array<", "* int",
        "a decimal(x)", "SELECT", "(" * 500, "a struct<x: " * 500, "a array<int, int>",
    ],
    ids=lambda ddl: ddl[:20],
)  # fmt: skip
def test_a_schema_that_is_no_list_of_attributes_is_refused(good, ddl):
    """In words: nothing but a problem of the description comes of it."""
    good["events"]["schema"] = ddl
    found = problems(good)
    assert any("events.schema" in problem for problem in found), found
    assert all(len(problem) < 1_000 for problem in found)
