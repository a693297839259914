"""Subscriptions over HTTP: made, seen, changed, renewed, cancelled, listed; and what is wrong with them."""

import gzip
import sqlite3
import threading
import uuid
from pathlib import Path

import pytest
from tests.server.web import WebService, web_service

NO_TICKET = "0" * 64


def test_a_subscription_is_made_and_seen_by_whoever_has_its_ticket(web: WebService):
    made = web.subscribe("symbol = 'GOOG' AND price > 500", wish={"metadata": {"email": "a@b.c"}})
    assert made["feed"] == f"/v1/feeds/{made['id']}"
    assert (made["kind"], made["warnings"], made["matching"]) == ("filter", [], True)
    seen = web.get(f"/v1/subscriptions/{made['id']}", made["ticket"]).json()
    assert seen["subscription"] == "symbol = 'GOOG' AND price > 500"
    assert (seen["subscriber"], seen["metadata"]) == ("alice", {"email": "a@b.c"})
    assert seen["expires"] == made["expires"]


def test_a_preference_is_applied_only_if_it_was_given(web: WebService):
    """RFC 7240: what can't be read is no preference."""
    wish = {"subscriber": "alice", "subscription": "price > 5"}
    for given, applied in (
        ({}, None),
        ({"Prefer": "wait=7"}, "wait=7"),
        ({"Prefer": 'respond-async, wait="7"; foo=bar'}, "wait=7"),
        ({"Prefer": "wait=900"}, "wait=60"),
        ({"Prefer": "wait=soon"}, None),
    ):
        answer = web.post("/v1/subscriptions", wish, headers=given)
        assert answer.status_code == 201
        assert answer.headers.get("preference-applied") == applied, given
        assert answer.headers["location"] == f"/v1/subscriptions/{answer.json()['id']}"


def test_errors_of_the_language_say_where_and_what_to_do(web: WebService):
    wish = {"subscriber": "alice", "subscription": "size > 1\n AND prise > 5"}
    answer = web.post("/v1/subscriptions", wish)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert problem["type"] == "urn:penstock:problem:invalid-subscription"
    assert problem["position"] == {"start": 14, "end": 19, "line": 2, "column": 6}
    assert (problem["detail"], problem["hint"]) == (
        "unknown attribute 'prise'",
        "did you mean 'price'?",
    )
    problem = web.post("/v1/check", {"subscription": "price >"}).json()
    assert problem["position"]["start"] == 6
    assert problem["detail"]


def test_a_filter_that_does_not_fit_what_was_published_is_warned_of(tmp_path: Path):
    """Where the schema is learned. Before the first event nothing is known; it is taken all the same."""
    with web_service(tmp_path, schema=None) as web:
        assert web.subscribe("prise > 500")["warnings"] == []
        answer = web.post("/v1/events", {"symbol": "GOOG", "price": 5.5})
        assert answer.status_code == 202
        assert web.subscribe("price > 500 AND symbol = 'GOOG'")["warnings"] == []
        for text, warning in (
            ("prise > 500", "unknown attribute 'prise'; did you mean 'price'?"),
            ("price > 5 AND symbol > 7", "symbol"),
        ):
            (found,) = web.subscribe(text)["warnings"]
            assert found.startswith("doesn't fit the events so far: ")
            assert warning in found
            assert web.post("/v1/check", {"subscription": text}).status_code == 422
        web.post("/v1/events", {"prise": 501.0})
        assert web.subscribe("prise > 500")["warnings"] == []


@pytest.mark.parametrize("path", ["/v1/subscriptions", "/v1/events", "/v1/check"])
def test_a_body_in_another_encoding_is_refused_with_the_reason(web: WebService, path: str):
    """A few bytes of it could be gigabytes; `identity` is none."""
    packed = gzip.compress(b'{"subscriber": "alice", "subscription": "price > 5"}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = web.ask("POST", path, content=packed, headers=headers)
    assert answer.status_code == 415
    assert "Content-Encoding 'gzip' is not taken" in answer.json()["detail"]
    plain = {**headers, "Content-Encoding": "identity"}
    answer = web.ask("POST", path, content=b"{}", headers=plain)
    assert answer.status_code != 415


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        (b"", 400, "bad-json", "empty"),
        (b"{", 400, "bad-json", "no JSON"),
        (b"[]", 400, "bad-json", "object"),
        (b"[" * 100_000, 400, "bad-json", ""),
        (b'{"subscriber":"a"}', 400, "bad-json", "subscription"),
        (b'{"subscriber":"a","subscription":5}', 400, "bad-json", "str"),
        (b'{"subscriber":"a","subscription":"\xff"}', 400, "bad-json", ""),
        (
            b'{"subscriber":"a","subscription":"price > 5","leese":"1 day"}',
            400,
            "bad-json",
            "leese",
        ),
        (b'{"subscriber":"","subscription":"price > 5"}', 400, "bad-json", "length"),
        (b'{"subscriber":" ","subscription":"price > 5"}', 422, "invalid-value", "subscriber"),
        (b'{"subscriber":"\\u0000","subscription":"price > 5"}', 422, "invalid-value", "NUL"),
        (
            b'{"subscriber":"a","subscription":"symbol = \'\\u0000\'"}',
            422,
            "invalid-subscription",
            "NUL",
        ),
        (
            b'{"subscriber":"a","subscription":"price > 5","lease":"soon"}',
            422,
            "invalid-value",
            "1 day",
        ),
        (
            b'{"subscriber":"a","subscription":"SELECT * FROM T"}',
            422,
            "invalid-subscription",
            "catalog",
        ),
        (
            b'{"subscriber":"a","subscription":"price > 5","metadata":{"a":"\\u0000"}}',
            422,
            "invalid-value",
            "NUL",
        ),
    ],
)
def test_what_is_no_subscription_is_refused_with_the_reason(
    web: WebService, body, status, kind, says
):
    answer = web.post(
        "/v1/subscriptions", content=body, headers={"Content-Type": "application/json"}
    )
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem["type"] == f"urn:penstock:problem:{kind}"
    assert says in problem["detail"], problem


def test_a_wrong_ticket_and_a_subscription_that_is_not_there_are_answered_alike(web: WebService):
    """Nobody learns that somebody else's subscription exists."""
    made = web.subscribe()
    paths = ("", "/renew", "/explain", "/resync")
    for sid in (made["id"], 999_999, -5, 2**63, "abc", "007", "%2e%2e"):
        answers = {
            web.ask(method, f"/v1/subscriptions/{sid}{path}", NO_TICKET, **more).text
            for path in paths
            for method, more in (
                [("GET", {}), ("PATCH", {"json": {}}), ("DELETE", {})]
                if not path
                else [("POST", {"json": {"event": {}} if path == "/explain" else {}})]
            )
        }
        answers.add(web.get(f"/v1/feeds/{sid}", NO_TICKET).text)
        answers.add(web.get(f"/v1/feeds/{sid}?ticket={NO_TICKET}").text)
        assert len(answers) == 1, answers
        assert "urn:penstock:problem:not-found" in answers.pop()
    assert web.get(f"/v1/subscriptions/{made['id']}", made["ticket"]).status_code == 200


def test_a_subscription_is_changed_renewed_and_cancelled(web: WebService):
    made = web.subscribe()
    path, ticket = f"/v1/subscriptions/{made['id']}", made["ticket"]
    changed = web.ask("PATCH", path, ticket, json={"subscription": "price > 6"}).json()
    assert (changed["subscription"], changed["metadata"]) == ("price > 6", {})
    changed = web.ask("PATCH", path, ticket, json={"metadata": {"a": "b"}}).json()
    assert (changed["subscription"], changed["metadata"]) == ("price > 6", {"a": "b"})
    assert web.ask("PATCH", path, ticket, json={}).json() == changed
    assert web.ask("PATCH", path, ticket, json={"subscription": "prise > 6"}).status_code == 422
    renewed = web.post(f"{path}/renew", {"lease": "forever"}, ticket).json()
    assert renewed["expires"] is None
    assert web.post(f"{path}/renew", None, ticket).json()["expires"] is not None
    assert web.post(f"{path}/resync", None, ticket).status_code == 409
    assert web.ask("DELETE", path, ticket).status_code == 204
    assert web.ask("DELETE", path, ticket).status_code == 404
    assert web.get(made["feed"], ticket).status_code == 404


def test_a_repeated_request_with_an_idempotency_key_makes_one_subscription(web: WebService):
    wish = {"subscriber": uuid.uuid4().hex, "subscription": "price > 5"}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    answers = []

    def ask() -> None:
        answers.append(web.post("/v1/subscriptions", wish, headers=key))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    found = [answer.json() for answer in answers]
    assert all(one == found[0] for one in found)
    assert (
        len(web.get(f"/v1/subscriptions?subscriber={wish['subscriber']}").json()["subscriptions"])
        == 1
    )
    other = web.post("/v1/subscriptions", {**wish, "lease": "2 days"}, headers=key)
    assert other.status_code == 409
    assert web.get(f"/v1/subscriptions/{found[0]['id']}", found[0]["ticket"]).status_code == 200
    assert (
        web.post("/v1/subscriptions", wish, headers={"Idempotency-Key": "a b"}).status_code == 400
    )


def test_a_key_whose_request_was_refused_may_be_used_again(web: WebService):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    wish = {"subscriber": "alice", "subscription": "prise > 5"}
    assert web.post("/v1/subscriptions", wish, headers=key).status_code == 422
    wish["subscription"] = "price > 5"
    assert web.post("/v1/subscriptions", wish, headers=key).status_code == 201


def test_a_subscription_whose_answer_was_lost_in_a_crash_is_found_again(web: WebService):
    """The registry has it, the note of its id was never written."""
    wish = {"subscriber": uuid.uuid4().hex, "subscription": "price > 5"}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    made = web.post("/v1/subscriptions", wish, headers=key).json()
    with sqlite3.connect(web.service.settings.folder / "service.db") as database:
        database.execute("UPDATE idempotency_keys SET subscription = NULL")
    again = web.post("/v1/subscriptions", wish, headers=key)
    assert (again.status_code, again.json()) == (200, made)


def test_subscriptions_are_listed_page_by_page(web: WebService):
    name = uuid.uuid4().hex
    ids = [web.subscribe(f"price > {n}", name)["id"] for n in range(5)]
    found, after = [], ""
    while True:
        page = web.get(f"/v1/subscriptions?subscriber={name}&limit=2{after}").json()
        found += [one["id"] for one in page["subscriptions"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == ids
    page = web.get(f"/v1/subscriptions?subscriber={name}&search=PRICE%20%3E%203").json()
    assert [one["id"] for one in page["subscriptions"]] == [ids[3]]
    assert not web.get(f"/v1/subscriptions?subscriber={name}&kind=tree-pattern").json()[
        "subscriptions"
    ]
    for wrong in ("kind=filters", "limit=0", "limit=x", "after=x", "limit=1&limit=2", "who=me"):
        answer = web.get(f"/v1/subscriptions?{wrong}")
        assert (answer.status_code, answer.json()["type"]) == (
            400,
            "urn:penstock:problem:bad-parameter",
        )


def test_a_text_is_checked_and_tried_on_recent_events(web: WebService):
    symbol = uuid.uuid4().hex
    web.post("/v1/events", [{"symbol": symbol, "price": n} for n in range(20)])
    checked = web.post("/v1/check", {"subscription": f"symbol = '{symbol}' AND price >= 8"}).json()
    assert (checked["kind"], checked["matched"], len(checked["matches"])) == ("filter", 12, 10)
    assert checked["matches"][0]["record"] == {"symbol": symbol, "price": 19.0}
    assert checked["tried"] >= 20
    assert web.post("/v1/check", {"subscription": "//a/b"}).json()["kind"] == "tree-pattern"
    expensive = web.post("/v1/check", {"subscription": "symbol NOT LIKE '%x%'"}).json()
    assert expensive["cost"] > 0
    assert expensive["warnings"]


def test_why_an_event_matches_or_does_not(web: WebService):
    made = web.subscribe("symbol = 'GOOG' AND price > 500")
    path, ticket = f"/v1/subscriptions/{made['id']}/explain", made["ticket"]
    told = web.post(path, {"event": {"symbol": "GOOG", "price": 400}}, ticket).json()
    assert (told["matched"], told["lacking"]) == (False, 1)
    assert [one["truth"] for one in told["predicates"]] == [True, False]
    published = web.post("/v1/events", {"symbol": "GOOG", "price": 600}).json()
    assert web.post(path, {"position": published["first"]}, ticket).json()["matched"] is True
    assert web.post(path, {"position": 10**9}, ticket).status_code == 404
    assert web.post(path, {"event": {"price": "high"}}, ticket).status_code == 422
    assert web.post(path, {"event": "text"}, ticket).status_code == 422
    assert web.post(path, {}, ticket).status_code == 400
    pattern = web.subscribe("//item[topic = 'ACME']")
    path, ticket = f"/v1/subscriptions/{pattern['id']}/explain", pattern["ticket"]
    told = web.post(path, {"event": "<item><topic>ACME</topic></item>"}, ticket)
    assert told.json()["matched"] is True
    assert web.post(path, {"event": "<item>"}, ticket).status_code == 422
    assert web.post(path, {"position": published["first"]}, ticket).status_code == 409


def test_what_nobody_would_match_is_refused(tmp_path: Path):
    """A live service matches filters: a tree pattern would wait for ever, and so would a document."""
    with web_service(tmp_path) as web:
        for path, wish in (
            ("/v1/subscriptions", {"subscriber": "alice", "subscription": "//a/b"}),
            ("/v1/check", {"subscription": "//a/b"}),
        ):
            refused = web.post(path, wish)
            assert (refused.status_code, "match: spark" in refused.json()["hint"]) == (422, True)
        made = web.subscribe()
        change = {"subscription": "//a/b"}
        path = f"/v1/subscriptions/{made['id']}"
        assert web.ask("PATCH", path, made["ticket"], json=change).status_code == 422
        assert web.post("/v1/documents", {"a": 1}).status_code == 409
        assert web.post("/v1/tables/Stocks", {"Symbol": "GOOG"}).status_code == 404


def test_a_pace_needs_spark(tmp_path):
    """The live matcher keeps to none: it is refused, and what has one already is set aside with the reason."""
    with web_service(tmp_path) as web:
        wish = {"subscriber": "alice", "subscription": "price > 5", "pace": "10 per hour"}
        refused = web.post("/v1/subscriptions", wish)
        assert (refused.status_code, refused.json()["pointer"]) == (422, "/pace")
        sid, _ = web.service.registry.subscribe("alice", "price > 5", pace="10 per hour")
        plain = web.subscribe("price > 5")
        web.post("/v1/events", {"price": 7.0})
        answer = web.get(f"/v1/feeds/{plain['id']}?offset=-1&live=long-poll", plain["ticket"])
        assert [one["subscription"] for one in answer.json()] == [plain["id"]]
        (line,) = web.get("/v1/status").json()["matching"]["latest"]["filter"]["refusals"]
        assert line.startswith(f"subscription {sid}: it has a pace")
