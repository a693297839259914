"""Files that describe a broker."""

from pathlib import Path
from typing import Any

import pytest

from penstock.network.broker_settings import Bounds, Place, Times
from penstock.network.host import HostLimits
from penstock.network.payload.node import PayloadLimits
from penstock.server.broker_file import (
    BrokerFileError,
    broker_schema,
    parse_broker,
    read_broker_file,
)

SMALL: dict[str, Any] = {"name": "b2", "schema": {"price": "double"}}


def test_a_small_file_is_enough():
    """A name and a schema; all else has a default."""
    found = parse_broker(SMALL)
    settings = found.settings()
    assert settings.place == Place(0, "b2")
    assert settings.parents == ()
    assert (settings.times, settings.bounds) == (Times(), Bounds())
    assert (settings.payload_limits, found.host_limits()) == (PayloadLimits(), HostLimits())
    assert found.listen == ["tcp/127.0.0.1:7447"]
    assert found.folder.name == "broker-b2"


def test_everything_that_a_file_says_arrives():
    """Lengths of time and amounts in words."""
    found = parse_broker(
        {
            **SMALL,
            "rank": 1,
            "neighbours": [
                {"name": "b1", "at": "tcp/h:1"},
                {"name": "a", "rank": 1, "at": "tcp/h:2"},
            ],
            "times": {"repeat": "250 ms", "silence": "5 seconds"},
            "limits": {
                "outbox": "64 MB",
                "under_way": 7,
                "frame": "2 MB",
                "window": 9,
                "mail": "1 MB",
            },
            "routing": "covering",
            "threshold": 0.1,
            "advertisements": False,
            "payloads": {"attributes": ["price", ["a", "b"]], "repository": "1 MB"},
            "schema": {"price": "double", "a": "string", "b": "string"},
            "zenoh": {"transport": {"link": {"tls": {"enable_mtls": True}}}},
        }
    )
    settings = found.settings()
    assert settings.parents == (Place(0, "b1"), Place(1, "a"))
    assert (settings.times.repeat, settings.times.silence) == (0.25, 5.0)
    assert settings.bounds == Bounds(
        outbox_bytes=64_000_000,
        events_under_way=7,
        message_bytes=2_000_000,
        frame_bytes=2_000_000,
        window=9,
    )
    assert found.host_limits().mail_bytes == 1_000_000
    assert settings.payloads == (("price",), ("a", "b"))
    assert settings.payload_limits.repository_bytes == 1_000_000
    assert (settings.routing, settings.threshold, settings.advertisements) == (
        "covering",
        0.1,
        False,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nmae": "x"}, "unknown key 'nmae': did you mean 'name'?"),
        ({"name": "a b"}, "'a b' can't be a name in the network"),
        ({"rank": -1}, "rank is a number from 0 on, not -1"),
        ({"threshold": 2.0}, "threshold is a number from 0 to 1, not 2.0"),
        ({"routing": "mergin"}, "routing 'mergin': did you mean 'merging'?"),
        ({"schema": None}, "missing key 'schema'"),
        ({"schema": {"a": "duble"}}, "schema"),
        ({"listen": "tcp/x:1"}, "listen is a list of texts, not text"),
        ({"neighbours": [{"nam": "b1"}]}, "unknown key 'neighbours.0.nam': did you mean"),
        ({"neighbours": [{"name": "b1"}]}, "b1 needs at, where it listens"),
        ({"neighbours": [{"name": "z", "at": "tcp/h:1"}]}, "comes before its parents z"),
        ({"times": {"repeat": "soon"}}, "times.repeat 'soon'"),
        ({"times": {"repet": "1 s"}}, "unknown key 'times.repet': did you mean 'times.repeat'?"),
        ({"payloads": {"attributes": ["logo"]}}, "payloads: logo: not in the schema"),
        ({"limits": {"outbox": "much"}}, "limits.outbox is an amount like 64 MB"),
        ({"nats": {"servers": "nats://h"}, "zenoh": {"a": 1}}, "links go over one of them"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str):
    """With the key, and what was meant."""
    with pytest.raises(BrokerFileError) as error:
        parse_broker({**SMALL, **changes})
    assert said in str(error.value)


def test_all_problems_come_at_once():
    """One run, one list."""
    with pytest.raises(BrokerFileError, match="3 problems in the broker description"):
        parse_broker({"name": "a b", "schema": "price double", "rnk": 1, "routing": "x"})


def test_a_file_that_is_not_there_or_no_yaml_is_said(tmp_path: Path):
    """With its name."""
    with pytest.raises(BrokerFileError, match="No such file"):
        read_broker_file(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_text("a: [")
    with pytest.raises(BrokerFileError, match="is not YAML that describes a broker"):
        read_broker_file(tmp_path / "b.yaml")


def test_there_is_a_schema_for_editors():
    """It has every key."""
    assert set(broker_schema()["properties"]) >= {"name", "rank", "neighbours", "times", "zenoh"}
