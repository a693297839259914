"""A service file: what it may hold, and everything that is wrong with it at once."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.pages import ROOT, blocks
from tests.pipeline.json_schema import violations

from penstock.base.errors import SettingsError
from penstock.server.setting_parts import KafkaPart
from penstock.server.settings import parse_settings, read_settings, settings_schema


def problems(value: Any) -> list[str]:
    with pytest.raises(SettingsError) as found:
        parse_settings(value)
    return found.value.problems


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_is_needed():
    settings = read_settings(None)
    assert (settings.host, settings.port, settings.match) == ("127.0.0.1", 8400, "spark")
    assert settings.address == "http://localhost:8400"
    assert settings.is_local


def test_what_the_command_line_gives_wins(tmp_path: Path):
    (tmp_path / "service.yaml").write_text("port: 1\nmatch: live\n")
    settings = read_settings("service.yaml", {"port": 2})
    assert (settings.port, settings.match) == (2, "live")
    assert settings.given == {"port": 2, "match": "live"}


def test_an_empty_file_is_fine(tmp_path: Path):
    (tmp_path / "service.yaml").write_text("# nothing yet\n")
    assert read_settings("service.yaml").port == 8400


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prt": 5}, "unknown key 'prt': did you mean 'port'?"),
        ({"port": "high"}, "port is a number from 0 to 65535, not text ('high')"),
        ({"port": 70_000}, "port is a number from 0 to 65535, not 70000"),
        ({"match": "life"}, "match 'life': did you mean 'live'?"),
        ({"data": "s3://bucket/x"}, "data s3://bucket/x: the data folder holds databases"),
        ({"schema": {"_time": "string"}}, "schema: '_time': names that begin with _ are the"),
        ({"schema": "price"}, "schema: attribute 'price' has no type"),
        (
            {"checkpoints": "s3://b/x"},
            "checkpoints s3://b/x: with files as the log they are in a folder",
        ),
        ({"checkpoint": "s3://b/x"}, "unknown key 'checkpoint': did you mean 'checkpoints'?"),
        ({"trigger": "available-now"}, "trigger 'available-now' would end"),
        ({"trigger": "soon"}, "trigger 'soon': give an interval"),
        ({"log": {"format": "kafak"}}, "log.format 'kafak': did you mean 'kafka'?"),
        ({"log": {"format": "kafka"}}, "missing key 'log.servers'"),
        ({"log": {"seel": "1 s"}}, "unknown key 'log.seel': did you mean 'log.seal'?"),
        ({"log": {"seal": 5}}, "log.seal is a length of time like 250 ms or 7 days, not a number"),
        ({"retention": {"age": "5 moons"}}, "the age '5 moons' of feeds"),
        ({"retention": {"size": "much"}}, "retention.size is an amount like 64 MB or 2 GiB"),
        ({"tls": {"certificate": "c.pem"}}, "tls.certificate c.pem: No such file or directory"),
        ({"limits": {"records": 0}}, "limits.records is a number from 1 on, not 0"),
        ({"limits": {"boddy": 1}}, "unknown key 'limits.boddy': did you mean 'limits.body'?"),
        ({"catalog": {"tabels": {}}}, 'catalog is "@FILE" or a mapping with tables'),
        ({"catalog": "@none.yaml"}, "catalog: none.yaml: No such file or directory"),
        ({"sinks": [{"format": "parket", "path": "x"}]}, "sinks.0.format 'parket': did you mean"),
        ({"sinks": [{"format": "parquet", "pth": "x"}]}, "unknown key 'sinks.0.pth': did you mean"),
        ({"sources": {"evnts": {}}}, "unknown key 'sources.evnts': did you mean 'sources.events'?"),
        ({"sources": {"events": {"format": "json"}}}, "a json source needs a path"),
        ({"match": "live", "sinks": [{"format": "console"}]}, "match: live doesn't use sinks"),
        ({"cors": "https://a"}, "cors is a list of texts, not text"),
        (["port"], "a service description is a mapping of keys to values, not a list"),
    ],
)
def test_what_is_wrong_is_said(given: Any, said: str):
    (problem,) = [one for one in problems(given) if said in one][:1] or problems(given)
    assert said in problem


def test_everything_is_said_at_once():
    assert len(problems({"prt": 1, "match": "x", "limits": {"records": 0}, "cors": 5})) == 4


def test_a_secret_in_a_url_is_not_repeated():
    found = problems({"sinks": [{"format": "webhook", "url": 5, "secret": ["whsec_abc"]}]})
    assert not any("whsec_abc" in one for one in found)


def test_checkpoints_are_in_a_folder_however_it_is_written_or_with_kafka_in_a_store():
    """A `file:` URI that were taken for a path would keep what was read from being deleted."""
    assert parse_settings({"checkpoints": "file:///shared/p"}).checkpoint_root == "/shared/p"
    assert parse_settings({"checkpoints": "/shared/p"}).checkpoint_root == "/shared/p"
    kafka = {"format": "kafka", "servers": "k:1"}
    uri = "s3://bucket/p?endpoint_override=minio:9000&scheme=http"
    assert parse_settings({"checkpoints": uri, "log": kafka}).checkpoint_root == uri


def test_loopback_is_known_in_all_its_spellings():
    for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1"):
        assert parse_settings({"host": host}).is_local
    for host in ("0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org"):
        assert not parse_settings({"host": host}).is_local


def test_options_of_kafka_are_for_the_producer_or_for_spark():
    log = parse_settings(
        {"log": {"format": "kafka", "servers": "k:1", "options": {"acks": "all", "spark.x.y": 5}}}
    ).log
    assert isinstance(log, KafkaPart)
    assert (log.producer_options, log.reader_options) == ({"acks": "all"}, {"x.y": "5"})


def test_the_file_in_the_documents_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every key of a service file stands there, and the JSON Schema agrees."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news").mkdir()
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    (tmp_path / "my_operators.py").write_text("")
    page = blocks(ROOT / "docs" / "OPERATIONS.md")
    (text,) = [one.text for one in page if one.language == "yaml" and "penstock-data" in one.text]
    value = yaml.safe_load(text)
    assert value.keys() == set(settings_schema()["properties"])
    schema = settings_schema()
    assert not violations(value, schema, schema)
    del value["operators"]  # a module of the reader's own
    assert parse_settings(value).retention.make().age == "7 days"
