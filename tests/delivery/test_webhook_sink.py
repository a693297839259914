"""Webhooks, with a real receiver: signed requests, tried again where that helps, and nothing lost where it doesn't."""

import json
import threading
import time

import pyarrow as pa
import pytest
from tests.delivery.receiver import SECRET, receiver, reply
from tests.pipeline.scenes import forget_commit, market, pipeline, run, tick, write_events

from penstock import PipelineError, WebhookLimits, WebhookSink


def rows(*names):
    values = [json.dumps({"notification_id": name}).encode() for name in names]
    return pa.record_batch({"notification_id": list(names), "value": values})


def post(sink, *batches):
    """What a worker does; how many requests were refused."""
    (told,) = sink._post(iter(batches))
    return told["refused"][0].as_py()


def one_by_one(**limits):
    return WebhookLimits(**{"notifications": 1, "connections": 1, **limits})


@pytest.mark.spark
def test_notifications_are_posted_in_signed_requests(spark, tmp_path):
    """So many in each; a replay sends the same requests under the same ids."""
    subs = market()
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob", "symbol = 'B'")
    write_events(tmp_path / "in", "1.json", [tick(n, "B", 10) for n in range(5)])
    with receiver() as found:
        headers = {"Authorization": "Bearer t"}
        sink = WebhookSink(found.url, SECRET, WebhookLimits(4), headers)
        assert run(pipeline(tmp_path, spark, subs, sink=sink)).batches[0].report.notifications == 10
        first = found.received[:]
        forget_commit(tmp_path, 0)
        run(pipeline(tmp_path, spark, subs, sink=sink))
    assert sorted(len(one.notifications) for one in first) == [2, 4, 4]
    told = {(n["event"]["id"], n["subscriber"]) for one in first for n in one.notifications}
    assert told == {(n, who) for n in range(5) for who in ("alice", "bob")}
    assert {one.headers["authorization"] for one in first} == {"Bearer t"}
    again = found.received[len(first) :]
    assert {one.id: one.notifications for one in again} == {
        one.id: one.notifications for one in first
    }
    assert len({one.id for one in first}) == 3


def test_a_request_is_tried_again_where_that_helps():
    """A server that fails, is overloaded, or hangs up; the same id each time."""

    def hang_up(handler):
        handler.close_connection = True

    answers = [503, lambda h: reply(h, 429, Retry_After="0"), hang_up, 200]
    with receiver(lambda number: answers[min(number, 3)]) as found:
        assert post(WebhookSink(found.url, SECRET, one_by_one()), rows("a"), rows("b")) == 0
    assert found.ids() == ["a"] * 4 + ["b"]
    assert len({one.id for one in found.received[:4]}) == 1


def test_tries_end():
    """After so many, or when the server asks for more time than there is."""
    with receiver(lambda number: 500) as found:
        sink = WebhookSink(found.url, SECRET, one_by_one(tries=3))
        with pytest.raises(PipelineError, match=r"at 127\.0\.0\.1 .* 3 tries: 500 Internal"):
            post(sink, rows("a", "b"))
        assert found.ids().count("a") == 3
    with (
        receiver(lambda number: lambda h: reply(h, 429, Retry_After="3600")) as found,
        pytest.raises(PipelineError, match="1 tries: 429 Too Many"),
    ):
        post(WebhookSink(found.url, SECRET), rows("a"))
    with pytest.raises(PipelineError, match="Connection refused"):
        post(WebhookSink(found.url, SECRET, one_by_one(tries=2)), rows("a"))


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_what_is_refused_fails_at_once(status):
    with (
        receiver(lambda number: lambda h: reply(h, status, b"why?", Location="/")) as found,
        pytest.raises(PipelineError, match=rf"refuses a request: {status} .*: why\?") as error,
    ):
        post(WebhookSink(found.url, SECRET), rows("a"))
    assert len(found.received) == 1
    assert "/hook" not in str(error.value)


def test_what_is_refused_for_its_content_may_be_kept(tmp_path):
    """One file for each request, the same in a replay; a receiver that doesn't know us stops all the same."""
    answers = {"bad": 422, "good": 200}

    def answer(handler):
        reply(handler, answers[found.ids()[-1]])

    with receiver(lambda number: answer) as found:
        sink = WebhookSink(found.url, SECRET, one_by_one(), refused=str(tmp_path / "refused"))
        for _ in range(2):
            assert post(sink, rows("good", "bad", "good")) == 1
        (file,) = (tmp_path / "refused").iterdir()
        assert json.loads(file.read_text()) == {
            "reason": "422 Unprocessable Entity",
            "notifications": [{"notification_id": "bad"}],
        }
        answers["bad"] = 403
        with pytest.raises(PipelineError, match="403 Forbidden"):
            post(sink, rows("bad"))


def test_connections_are_bounded():
    """Two requests are answered only when both are there; a third never is beside them."""
    meeting = threading.Barrier(2, timeout=60)
    active: list[int] = []
    most: list[int] = []

    def answer(handler):
        with found.lock:
            active.append(1)
            most.append(len(active))
        meeting.wait()
        with found.lock:
            active.pop()
        reply(handler, 200)

    with receiver(lambda number: answer) as found:
        post(
            WebhookSink(found.url, SECRET, one_by_one(connections=2)),
            rows(*map(str, range(5))),
            rows("x"),
        )
    assert sorted(found.ids()) == ["0", "1", "2", "3", "4", "x"]
    assert max(most) == 2


def test_an_answer_that_never_ends_is_not_waited_for():
    """A body without end is cut, a head without end is a failure."""
    gone = threading.Event()

    def drip(handler, head):
        handler.wfile.write(head)
        try:
            while True:
                handler.wfile.write(b"x" * 4096)
                time.sleep(0.001)
        except OSError:
            gone.set()
            handler.close_connection = True

    def body(handler):
        drip(handler, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")

    def head(handler):
        drip(handler, b"HTTP/1.1 200 OK\r\nx: ")

    with receiver(lambda number: body) as found:
        post(WebhookSink(found.url, SECRET, one_by_one(tries=1)), rows("a"))
        assert gone.wait(60)
    with receiver(lambda number: head) as found, pytest.raises(PipelineError, match="in 1 tries"):
        post(WebhookSink(found.url, SECRET, one_by_one(tries=1, timeout="1 s")), rows("a"))


def test_large_notifications_go_alone():
    with receiver() as found:
        limits = WebhookLimits(bytes=100, connections=1)
        post(WebhookSink(found.url, SECRET, limits), rows("a", "b", "c" * 200, "d"))
    assert [[n["notification_id"][0] for n in one.notifications] for one in found.received] == [
        ["a", "b"],
        ["c"],
        ["d"],
    ]
    assert [one.size for one in found.received if "ccc" not in str(one.notifications)] == [51, 26]


def make(limits=(), **changes):
    return WebhookSink(
        **{
            "url": "https://h/x",
            "secret": SECRET,
            **changes,
            "limits": WebhookLimits(**dict(limits)),
        }
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "ftp://h/hidden"}, "http://host/path or https"),
        ({"url": "https://hidden:hidden@h/"}, "go into headers"),
        ({"url": "http://h:hidden/"}, "http://host/path"),
        ({"url": "http://h/a b"}, "http://host/path"),
        ({"secret": "hidden"}, "whsec_ and the base64"),
        ({"secret": "whsec_hidden"}, "24 to 64 random bytes"),
        ({"secret": f"{SECRET} hidden"}, "24 to 64 random bytes"),
        ({"secret": ""}, "whsec_"),
        ({"headers": {"a": "hidden\r\nb: c"}}, "'a' of a webhook can't be sent"),
        ({"headers": {"Webhook-Id": "hidden"}}, "is set by the sink"),
        ({"limits": {"tries": 0}}, "tries of a webhook is a number from 1 on"),
        ({"limits": {"timeout": "0 s"}}, "timeout of a webhook is no time at all"),
        ({"limits": {"patience": "long"}}, "patience of a webhook can't be read"),
    ],
)
def test_what_cant_work_is_refused_and_nothing_secret_is_repeated(changes, message):
    with pytest.raises(PipelineError, match=message) as error:
        make(**changes)
    assert "hidden" not in str(error.value)


def test_a_repr_tells_the_host_only():
    shown = repr(WebhookSink("https://h.example/token", SECRET, headers={"a": "token"}))
    assert shown == "WebhookSink('h.example')"


def test_dead_letters_are_refused():
    with pytest.raises(PipelineError, match="these rows have no notification_id"):
        WebhookSink("https://h/", SECRET).check(None, ["reason", "raw"])
