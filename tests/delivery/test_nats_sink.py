"""NATS JetStream as a sink, on a real server: each notification is in the stream once, whatever is replayed."""

import asyncio
import shutil
import subprocess
import sys

import pytest
from tests.delivery.jetstream import ask, messages_in
from tests.pipeline.scenes import forget_commit, market, pipeline, run, tick, write_events
from tests.servers import NoServer, nats

from penstock import NatsSink, PipelineError
from penstock.delivery import nats_publishing
from penstock.delivery.nats_publishing import Message, NatsServer, Publisher
from penstock.delivery.nats_sink import subject_of

pytestmark = [pytest.mark.spark, pytest.mark.nats]

COLUMNS = ["notification_id", "kind", "subscription", "subscriber"]


@pytest.fixture(scope="module")
def server():
    try:
        with nats() as found:
            yield found
    except NoServer as reason:
        pytest.skip(f"no NATS: {reason}")


def test_notifications_are_messages_once(spark, tmp_path, server):
    """Under the subscriber's subject, with the id as header; the server drops what a replay publishes."""
    subs = market()
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob.smith > *", "symbol = 'B'")
    write_events(tmp_path / "in", "1.json", [tick(1, price=6), tick(2, "B", 7), "oops"])
    sink = NatsSink(server.url, "alerts.{kind}.{subscription}.{subscriber}", "ALERTS")

    def go():
        return run(pipeline(tmp_path, spark, subs, sink=sink)).batches[-1].report

    assert go().notifications == 3
    first = messages_in(server.url, "ALERTS")
    assert sorted((subject, note["event"]["id"]) for subject, _, note in first) == [
        ("alerts.filter.1.alice", 1),
        ("alerts.filter.1.alice", 2),
        ("alerts.filter.2.bob%2Esmith%20%3E%20%2A", 2),
    ]
    assert all(name == note["notification_id"] for _, name, note in first)
    assert {note["subscriber"] for _, _, note in first} == {"alice", "bob.smith > *"}
    forget_commit(tmp_path, 0)
    again = go()
    assert (again.replayed, again.notifications) == (True, 3)
    assert messages_in(server.url, "ALERTS") == first


def test_a_stream_is_found_or_made_or_missed(spark, server):
    """With one named it is made; without, some stream must take the subject."""
    with pytest.raises(PipelineError, match=r"no stream .* takes made\.\*: name one with stream"):
        NatsSink(server.url, "made.{kind}").check(spark, COLUMNS)
    NatsSink(server.url, "made.{kind}", "MADE").check(spark, COLUMNS)
    NatsSink(server.url, "made.{kind}", "MADE").check(spark, COLUMNS)
    NatsSink(server.url, "made.{kind}").check(spark, COLUMNS)
    made = ask(server.url, lambda jetstream: jetstream.stream_info("MADE")).config
    assert (made.subjects, made.duplicate_window) == (["made.*"], 600)
    with pytest.raises(PipelineError, match=r"the stream MADE doesn't take other\.\*"):
        NatsSink(server.url, "other.{kind}", "MADE").check(spark, COLUMNS)
    with pytest.raises(PipelineError, match=r"OTHER can't be made: .*overlap"):
        NatsSink(server.url, "made.x", "OTHER").check(spark, COLUMNS)


def publish(server, stream, messages, patience=60, **options):
    publisher = Publisher(NatsServer((server.url,), options), stream, 3, patience)
    return asyncio.run(publisher.publish(iter([messages])))


def test_messages_that_jetstream_doesnt_take_fail_the_task(server, monkeypatch):
    """No stream, another stream, a full one, one that is too large."""
    monkeypatch.setattr(
        nats_publishing, "_ACKNOWLEDGED", 600
    )  # answers decide, however late they are
    ask(
        server.url,
        lambda js: js.add_stream(name="FEW", subjects=["few"], max_msgs=5, discard="new"),
    )
    messages = [Message("few", b"{}", str(n)) for n in range(10)]
    with pytest.raises(
        PipelineError, match=r"no message for 0 s, 1 are left: few: maximum messages"
    ):
        publish(server, "FEW", messages, patience=0)
    with pytest.raises(PipelineError, match="few: expected stream does not match"):
        publish(server, "MANY", messages[:5])
    with pytest.raises(PipelineError, match="none: no stream takes it"):
        publish(server, None, [Message("none", b"", "1")], patience=0)
    with pytest.raises(PipelineError, match=r"notification 7 has 1,048,570 bytes"):
        publish(server, None, [Message("few", b"x" * 1_048_570, "7")])


def test_credentials_are_used_and_not_repeated(spark, server):
    """A wrong one is refused without being shown."""
    with nats("--user", "u", "--pass", "hidden") as closed:
        good = {"user": "u", "password": "hidden"}
        NatsSink(closed.url, "a.{kind}", "A", good).check(spark, COLUMNS)
        assert publish(closed, "A", [Message("a.b", b"", "1")], **good) == 1
        NatsSink(closed.url.replace("//", "//u:hidden@"), "a.{kind}").check(spark, COLUMNS)
        for bad in (
            NatsSink(closed.url, "a.{kind}", None, {"user": "u", "password": "hiddenx"}),
            NatsSink(closed.url.replace("//", "//u:hiddenx@"), "a.{kind}"),
        ):
            with pytest.raises(PipelineError, match="can't be reached") as error:
                bad.check(spark, COLUMNS)
            assert "hidden" not in f"{error.value} {bad!r}"
    with nats("--auth", "hidden") as closed:
        NatsSink(closed.url, "a.{kind}", "A", {"token": "hidden"}).check(spark, COLUMNS)


def test_keys_and_certificates_are_read_from_files(spark, server, tmp_path):
    """Who we are is signed with a key, and whom we trust is a certificate of our own."""
    nkeys = pytest.importorskip("nkeys")
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes a certificate")
    seed = nkeys.encode_seed(b"penstock" * 4, nkeys.PREFIX_BYTE_USER)
    (tmp_path / "seed").write_bytes(seed)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", "/CN=penstock", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", tmp_path / "key", "-out", tmp_path / "cert"),
        ],
        check=True,
        capture_output=True,
    )
    (tmp_path / "conf").write_text(
        f'authorization {{ users: [{{ nkey: "{public}" }}] }}\n'
        f'tls {{ cert_file: "{tmp_path}/cert", key_file: "{tmp_path}/key" }}\n'
    )
    with nats("-c", str(tmp_path / "conf")) as closed:
        options = {"nkeys_seed": str(tmp_path / "seed"), "tls_ca": str(tmp_path / "cert")}
        NatsSink(closed.url, "a.{kind}", "A", options).check(spark, COLUMNS)
        del options["tls_ca"]
        with pytest.raises(PipelineError, match="certificate verify failed"):
            NatsSink(closed.url, "a.{kind}", "A", options).check(spark, COLUMNS)


def test_without_a_server_or_jetstream_the_check_says_so(spark, server):
    away = NatsSink("nats://u:hidden@127.0.0.1:1")
    with pytest.raises(PipelineError, match=r"can't be reached: .*Connect call failed") as error:
        away.check(spark, COLUMNS)
    assert "hidden" not in f"{error.value} {away!r}"
    with pytest.raises(PipelineError, match="these rows have no notification_id"):
        away.check(spark, ["reason", "raw"])
    with (
        nats(jetstream=False) as plain,
        pytest.raises(PipelineError, match=r"doesn't offer JetStream: start it with -js"),
    ):
        NatsSink(plain.url).check(spark, COLUMNS)


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    with pytest.raises(PipelineError, match=r"pip install 'penstock\[nats\]'"):
        NatsSink("nats://h").check(None, COLUMNS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": "http://u:hidden@h"}, "URLs like nats://host:4222"),
        ({"servers": "nats://h, nats://h:hidden"}, "URLs like nats://host:4222"),
        ({"subject": "a.{who}"}, r"no placeholder \{who\}"),
        ({"subject": "a..b"}, "can't be a NATS subject"),
        ({"subject": "a.>"}, "can't be a NATS subject"),
        ({"subject": "a b"}, "can't be a NATS subject"),
        ({"subject": "$JS.x"}, "can't be a NATS subject"),
        ({"subject": "{kind}.{kind}"}, "each placeholder once"),
        ({"subject": "a" * 501}, "at most 500 characters"),
        ({"stream": "a.b"}, "a stream can't be called 'a.b'"),
        ({"options": {"pasword": "hidden"}}, "no option 'pasword'"),
        ({"in_flight": 0}, "in_flight of a NATS sink"),
        ({"patience": "long"}, "patience 'long' of a NATS sink can't be read"),
    ],
)
def test_what_cant_work_is_refused(changes, message):
    with pytest.raises(PipelineError, match=message) as error:
        NatsSink(**{"servers": "nats://h", **changes})
    assert "hidden" not in str(error.value)


def test_the_longest_subscriber_fits_a_line_of_the_protocol(server):
    """A registry takes 1,024 bytes, each of which may be three characters of a subject."""
    template = "long." + "x" * 480 + ".{subscriber}"
    NatsSink(server.url, template, "LONG").check(None, COLUMNS)
    subject = subject_of(template, {"subscriber": "\u20ac".encode() * 341})
    assert publish(server, "LONG", [Message(subject, b"", "1" * 60)]) == 1
