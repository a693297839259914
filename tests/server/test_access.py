"""Who may do what, how much of it, and what never gets into a log."""

import io
import json
import logging
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.web import QUICK, WebService, accept_all_kinds, web_service
from tests.sizes import PATIENCE

from penstock.base.errors import PenstockError
from penstock.server.web.api_keys import ApiKeys
from penstock.server.web.http_settings import HttpSettings
from penstock.server.web.request_log import JsonLines

EVENT = {"symbol": "GOOG", "price": 7.0}
WISH = {"subscriber": "alice", "subscription": "price < -1"}


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[WebService, dict[str, str]]]:
    """A service with keys, and those."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "data").mkdir()
    keys = ApiKeys(folder / "data" / "service.db")
    made = {
        "admin": keys.add("ops", ["admin"]),
        "publish": keys.add("feeder", ["publish"]),
        "subscribe": keys.add("app", ["subscribe"]),
        "alice": keys.add("alice", ["subscribe"], "alice"),
        "bob": keys.add("bob", ["subscribe"], "bob"),
        "metrics": keys.add("prometheus", ["metrics"]),
    }
    keys.close()
    with web_service(folder) as web:
        accept_all_kinds(web.service)
        yield web, made


def test_each_scope_allows_its_own(guarded):
    """401 without a key, 403 with one that lacks the scope."""
    web, keys = guarded
    asked = [
        ("POST", "/v1/events", EVENT, {"publish", "admin"}),
        ("POST", "/v1/documents", {"a": 1}, {"publish", "admin"}),
        ("POST", "/v1/subscriptions", WISH, {"subscribe", "alice", "admin"}),
        (
            "POST",
            "/v1/check",
            {"subscription": "price > 5"},
            {"subscribe", "alice", "bob", "admin"},
        ),
        ("GET", "/v1/subscriptions", None, {"alice", "bob", "admin"}),
        ("GET", "/v1/subscribers/alice/feed", None, {"alice", "admin"}),
        ("GET", "/metrics", None, {"metrics", "admin"}),
        ("GET", "/v1/status", None, {"metrics", "admin"}),
        ("GET", "/v1/events/recent", None, {"admin"}),
        ("GET", "/v1/dead-letters", None, {"admin"}),
    ]
    for method, path, value, allowed in asked:
        for name, key in keys.items():
            answer = web.ask(method, path, key, json=value)
            wanted = {200, 201, 202} if name in allowed else {403}
            assert answer.status_code in wanted, (path, name, answer.text)
        nobody = web.ask(method, path, json=value)
        assert (nobody.status_code, nobody.headers["www-authenticate"][:6]) == (401, "Bearer"), path
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert web.get(path).status_code == 200


@pytest.mark.parametrize("shown", ["Bearer", "Basic YTpi", "Bearer pk_ops_" + "x" * 43, "pk_ops"])
def test_bad_credentials_are_refused(guarded, shown):
    web, _ = guarded
    answer = web.get("/v1/subscriptions", headers={"Authorization": shown})
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:penstock:problem:unauthorized")


def test_a_bound_key_speaks_for_its_subscriber_only(guarded):
    """Bob can't subscribe for Alice, nor see that what she has is there; she needs no ticket."""
    web, keys = guarded
    made = web.ask("POST", "/v1/subscriptions", keys["alice"], json=WISH).json()
    assert web.ask("POST", "/v1/subscriptions", keys["bob"], json=WISH).status_code == 403
    path = f"/v1/subscriptions/{made['id']}"
    for credential, status in ((keys["alice"], 200), (keys["admin"], 200), (made["ticket"], 200)):
        assert web.get(path, credential).status_code == status
    absent = web.get("/v1/subscriptions/999999", keys["bob"])
    for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/renew"), ("POST", "/resync")):
        answer = web.ask(method, path + more, keys["bob"])
        assert (answer.status_code, answer.text) == (404, absent.text)
    assert web.get(made["feed"], keys["bob"]).text == absent.text
    assert web.get(path).status_code == 401
    assert web.get(path, keys["publish"]).status_code == 401
    listed = web.get("/v1/subscriptions", keys["bob"]).json()["subscriptions"]
    assert all(one["subscriber"] == "bob" for one in listed)
    assert web.get("/v1/subscriptions?subscriber=alice", keys["bob"]).status_code == 403
    assert web.post(f"{path}/renew", {"lease": "2 days"}, keys["alice"]).status_code == 200
    assert web.ask("DELETE", path, keys["admin"]).status_code == 204


def test_keys_come_and_go_while_the_service_runs(guarded):
    web, _ = guarded
    keys = ApiKeys(web.service.settings.folder / "service.db")
    key = keys.add("passing", ["metrics"])
    _until(lambda: web.get("/v1/status", key).status_code == 200)
    keys.remove("passing")
    _until(lambda: web.get("/v1/status", key).status_code == 401)
    keys.close()


def test_removing_the_last_key_opens_nothing(tmp_path: Path):
    now = [0.0]
    with_keys = ApiKeys(tmp_path / "service.db")
    with_keys.add("ops", ["admin"])
    running = ApiKeys(tmp_path / "service.db", clock=lambda: now[0])
    assert not running.open_to_all
    with_keys.remove("ops")
    now[0] = 10.0
    running.refresh()
    assert not running.any()
    assert not running.open_to_all
    assert ApiKeys(tmp_path / "service.db").open_to_all


@pytest.mark.parametrize(
    ("name", "scopes", "subscriber"),
    [
        ("A", ["publish"], None),
        ("a", [], None),
        ("a", ["all"], None),
        ("a", ["admin"], "alice"),
        ("a", ["publish"], " "),
    ],
)
def test_keys_that_make_no_sense_are_refused(name, scopes, subscriber):
    with pytest.raises(PenstockError):
        ApiKeys(":memory:").add(name, scopes, subscriber)


def test_only_hashes_of_keys_are_kept(tmp_path: Path):
    keys = ApiKeys(tmp_path / "service.db")
    secret = keys.add("ops", ["admin"]).removeprefix("pk_ops_")
    keys.close()
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


def test_anybody_may_publish_if_the_settings_say_so(tmp_path: Path):
    with web_service(tmp_path, http=HttpSettings(anonymous_publishing=True)) as web:
        web.service.keys.add("ops", ["admin"])
        assert web.post("/v1/events", EVENT).status_code == 202
        assert web.post("/v1/subscriptions", WISH).status_code == 401


def test_web_pages_of_others_do_nothing_on_a_service_without_keys(web: WebService):
    """DNS rebinding, and forms of other sites."""
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8400"):
        assert web.get("/v1/status", headers={"Host": host}).status_code == 421
    for host in ("localhost:8400", "127.0.0.1", "[::1]:8400", "penstock.localhost"):
        assert web.get("/v1/status", headers={"Host": host}).status_code == 200
    crossing = {"Sec-Fetch-Site": "cross-site"}
    assert web.post("/v1/events", EVENT, headers=crossing).status_code == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = web.post("/v1/events", content=json.dumps(EVENT), headers={"Content-Type": kind})
        assert answer.status_code == 415
        answer = web.post(
            "/v1/check", content=b'{"subscription":"a > 5"}', headers={"Content-Type": kind}
        )
        assert answer.status_code == 415
    assert (
        "access-control-allow-origin"
        not in web.get("/healthz", headers={"Origin": "https://a.b"}).headers
    )


def test_named_origins_may_use_the_service(tmp_path: Path):
    with web_service(tmp_path, http=HttpSettings(origins=("https://app.example",))) as web:
        mine, other = {"Origin": "https://app.example"}, {"Origin": "https://evil.example"}
        answer = web.get("/healthz", headers=mine)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "Stream-Next-Offset" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-origin" not in web.get("/healthz", headers=other).headers
        asked = {
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": "authorization",
        }
        preflight = web.ask("OPTIONS", "/v1/subscriptions/1", headers=mine | asked)
        assert preflight.status_code == 200
        assert web.ask("OPTIONS", "/v1/subscriptions/1", headers=other | asked).status_code == 400


def test_every_answer_has_an_id_and_headers_of_security(web: WebService):
    for answer in (web.get("/healthz"), web.get("/nowhere"), web.ask("PUT", "/v1/events")):
        assert len(answer.headers["x-request-id"]) == 32
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
    assert (
        web.get("/healthz", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    )
    assert web.get("/healthz", headers={"X-Request-Id": "a b"}).headers["x-request-id"] != "a b"
    missing, wrong = web.get("/nowhere"), web.ask("PUT", "/v1/events")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:penstock:problem:not-found")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert web.ask("DELETE", "/v1/subscriptions").headers["allow"] == "GET, HEAD, POST"


def test_logs_are_json_with_the_requests_id_and_without_secrets(guarded):
    web, keys = guarded
    made = web.ask("POST", "/v1/subscriptions", keys["alice"], json=WISH).json()
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("penstock.server")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        web.get(f"{made['feed']}?ticket={made['ticket']}", headers={"X-Request-Id": "r-1"})
        web.get(made["feed"], made["ticket"])
        web.get(f"/v1/feeds/x?ticket={made['ticket']}")
        web.get("/v1/status", keys["metrics"])
        web.ask(
            "POST",
            "/v1/subscriptions",
            keys["alice"],
            json=WISH,
            headers={"Idempotency-Key": "secret-1"},
        )
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    text = said.getvalue()
    for secret in (made["ticket"], *keys.values(), "secret-1"):
        assert secret not in text
    lines = [json.loads(line) for line in text.splitlines()]
    first = next(line for line in lines if line.get("request_id") == "r-1")
    assert (first["method"], first["path"], first["status"]) == ("GET", made["feed"], 200)
    assert first["route"] == "/v1/feeds/{id}"
    assert any(line.get("caller") == "key prometheus" for line in lines)


# --- limits ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service with small limits."""
    limits = replace(
        QUICK,
        body_bytes=20_000,
        body_seconds=1.0,
        head_bytes=8_000,
        head_seconds=1.0,
        records=10,
        text_bytes=200,
        subscriptions=3,
        connections_per_address=20,
        together=2,
    )
    with web_service(tmp_path_factory.mktemp("narrow"), limits) as web:
        yield web


def test_what_is_too_large_is_refused(narrow: WebService):
    long = b'{"symbol":"' + b"x" * 30_000 + b'"}'
    said = {"Content-Type": "application/json"}
    assert narrow.post("/v1/events", content=long, headers=said).status_code == 413
    chunks = (long[n : n + 100] for n in range(0, len(long), 100))
    assert narrow.post("/v1/events", content=chunks, headers=said).status_code == 413
    assert narrow.post("/v1/events", [EVENT] * 11).status_code == 413
    assert narrow.post("/v1/events", [EVENT] * 10).status_code == 202
    text = {**WISH, "subscription": "price > 5" + " OR price > 5" * 20}
    assert narrow.post("/v1/subscriptions", text).status_code == 422
    assert narrow.get("/healthz", headers={"X-Long": "x" * 9_000}).status_code == 431
    assert narrow.get("/healthz?" + "x" * 9_000).status_code == 431


def test_a_subscriber_has_so_many_subscriptions(narrow: WebService):
    wish = {**WISH, "subscriber": uuid.uuid4().hex}
    made = [narrow.post("/v1/subscriptions", wish).json() for _ in range(3)]
    refused = narrow.post("/v1/subscriptions", wish)
    assert (refused.status_code, refused.json()["limit"]) == (429, 3)
    assert refused.headers["retry-after"]
    assert narrow.post("/v1/subscriptions", {**wish, "subscriber": "another"}).status_code == 201
    assert narrow.get(f"/v1/subscribers/{wish['subscriber']}/feed").status_code == 409
    narrow.ask("DELETE", f"/v1/subscriptions/{made[0]['id']}", made[0]["ticket"])
    assert narrow.post("/v1/subscriptions", wish).status_code == 201


def test_too_many_requests_are_told_to_wait(tmp_path: Path):
    with web_service(tmp_path, replace(QUICK, requests_per_second=0.01, burst=3)) as web:
        assert [web.get("/healthz").status_code for _ in range(3)] == [200] * 3
        refused = web.get("/healthz")
        assert (refused.status_code, refused.json()["status"]) == (429, 429)
        assert 0 < int(refused.headers["retry-after"]) <= 101


def raw(web: WebService) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", int(web.url.rpartition(":")[2])))
    found.settimeout(PATIENCE)
    return found


def all_of(connection: socket.socket) -> bytes:
    """What is sent until the other side closes."""
    found = b""
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"GET /healthz HT", 408),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX", 408),
        (
            b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9\r\n\r\n{",
            408,
        ),
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000, 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 5_000, 431),
    ],
)
def test_what_is_no_request_is_answered_and_closed(narrow: WebService, sent, status):
    """Nobody keeps a connection by sending a head slowly, without end, or not at all."""
    connection = raw(narrow)
    connection.sendall(sent)
    answer = all_of(connection)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert b"application/problem+json" in answer
    connection.close()


def test_trailers_without_end_are_cut_off_and_never_headers(narrow: WebService):
    head = (
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    body = json.dumps(EVENT).encode()
    chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n"
    connection = raw(narrow)
    connection.sendall(head + chunk + b"Host: evil.example\r\n\r\n")
    assert all_of(connection).startswith(b"HTTP/1.1 202 ")
    connection = raw(narrow)
    connection.sendall(head + chunk)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        connection.sendall(b"X: " + b"y" * 50_000_000)
    connection.close()


def test_an_address_has_so_many_connections(narrow: WebService):
    narrow.client.close()
    narrow.client = type(narrow.client)(base_url=narrow.url, timeout=PATIENCE)
    open_ones = []
    refused = b""
    for _ in range(40):
        connection = raw(narrow)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = connection.recv(100)
        open_ones.append(connection)
        if not answer.startswith(b"HTTP/1.1 200 "):
            refused = answer
            break
    assert refused.startswith(b"HTTP/1.1 429 ")
    assert len(open_ones) <= 21
    for connection in open_ones:
        connection.close()
    _until(lambda: narrow.get("/healthz").status_code == 200)


def test_a_flood_of_calls_that_block_is_answered_with_503(tmp_path: Path):
    """What waits for threads is bounded; the event loop answers all the while."""
    import threading

    with web_service(tmp_path, replace(QUICK, reading_threads=1, waiting_calls=3)) as web:
        made = web.subscribe("price < -1")
        busy, release = threading.Event(), threading.Event()
        store = web.service.registry._store
        find = store.find

        def slow(*args: Any) -> Any:
            busy.set()
            release.wait(PATIENCE)
            return find(*args)

        store.find = slow
        answers: list[int] = []
        asking = [
            threading.Thread(
                target=lambda: answers.append(web.get(made["feed"], made["ticket"]).status_code)
            )
            for _ in range(10)
        ]
        for thread in asking:
            thread.start()
        busy.wait(PATIENCE)
        _until(lambda: len(answers) >= 7)
        assert set(answers) == {503}
        assert web.get("/healthz").status_code == 200
        release.set()
        for thread in asking:
            thread.join()
        assert sorted(answers) == [200] * 3 + [503] * 7


def _until(condition: Any) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)
