"""Every example of docs/HTTP.md is sent to a service, from top to bottom, and answered as it says there.

A block of `http` is a request, or the answer to the one before it. In an answer, `…` is anything, and `$NAME` takes
the value for requests further down. Headers that an answer doesn't show aren't looked at; of JSON all is compared,
unless an object has the member `"…"`. Of a stream, the lines that are shown must come first.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.pages import ROOT, Block, blocks
from tests.server.web import QUICK, WebService, accept_all_kinds, web_service

from penstock import Catalog, Subscriptions, Table
from penstock.server.web.problems import PROBLEMS

PAGE = ROOT / "docs" / "HTTP.md"
CATALOG = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "bigint", "Symbol": "string", "Rating": "bigint"}, key="Id"),
    },
    [("Stocks", "Reviews", "Symbol")],
)
SCHEMA = "symbol string, price double, cloudevent struct<type: string, source: string, id: string>"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WebService]:
    """As the page assumes: a schema, a catalogue, no keys."""
    (tmp_path / "data").mkdir()
    Subscriptions.open(tmp_path / "data" / "registry.db", catalog=CATALOG).close()
    limits = replace(QUICK, poll_seconds=30, stream_seconds=5)
    with web_service(tmp_path, limits, schema=SCHEMA) as web:
        accept_all_kinds(web.service, CATALOG)
        yield web


def test_every_example_is_answered_as_it_says(service: WebService):
    found = [block for block in blocks(PAGE) if block.language == "http"]
    assert len(found) > 20
    known: dict[str, str] = {}
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.text.startswith("HTTP/"):
            continue
        shown = following if following is not None and following.text.startswith("HTTP/") else None
        _exchange(service, block, shown, known)


def test_the_page_lists_all_types_of_problems():
    text = PAGE.read_text()
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE))
    assert listed == {kind: str(status) for kind, (status, _) in PROBLEMS.items()}


def test_the_page_names_all_operations(service: WebService):
    text = PAGE.read_text()
    for path, methods in service.get("/openapi.json").json()["paths"].items():
        for method in methods:
            if method != "head":
                assert f"{method.upper()} {path}" in text


def _exchange(
    service: WebService, block: Block, shown: Block | None, known: dict[str, str]
) -> None:
    text = re.sub(r"\$([A-Z]+)", lambda name: known[name[1]], block.text)
    head, _, body = text.partition("\n\n")
    first, *lines = head.splitlines()
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    request = service.client.build_request(method, path, headers=headers, content=body.encode())
    answer = service.client.send(request, stream=True)
    try:
        if shown is None:
            assert answer.status_code < 400, f"{block.where}: {answer.read()!r}"
        else:
            _compare(answer, shown, known)
    finally:
        answer.close()


def _compare(answer: httpx.Response, shown: Block, known: dict[str, str]) -> None:
    head, _, body = shown.text.partition("\n\n")
    first, *lines = head.splitlines()
    streams = answer.headers.get("content-type", "").startswith("text/event-stream")
    if not streams:
        answer.read()
    said = f"{shown.where}: {answer.status_code} {answer.headers}\n{'' if streams else answer.text}"
    assert int(first.split()[1]) == answer.status_code, said
    for line in lines:
        name, value = line.split(": ", 1)
        assert name.lower() in answer.headers, f"{name}: {said}"
        assert _fits(answer.headers[name], value, known), f"{name}: {said}"
    if streams:
        wanted = body.splitlines()
        got = answer.iter_lines()
        for line in wanted:
            assert _fits(next(got), line, known), line
    elif answer.headers.get("content-type", "").endswith("json"):
        assert _fits(answer.json(), json.loads(body), known), said
    else:
        assert _fits(answer.text.strip(), body.strip(), known), said


def _fits(found: Any, wanted: Any, known: dict[str, str]) -> bool:
    """Whether something is as it is shown; names that it is shown as are learned."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        more = "…" in wanted
        same = wanted.keys() - {"…"} <= found.keys() if more else wanted.keys() == found.keys()
        return same and all(
            _fits(found[name], wanted[name], known) for name in wanted if name != "…"
        )
    if isinstance(wanted, list) and isinstance(found, list):
        if wanted == ["…"]:
            return True
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(_fits(a, b, known) for a, b in pairs)
    if isinstance(wanted, str) and (name := re.fullmatch(r"\$([A-Z]+)", wanted)):
        known[name[1]] = str(found)
        return True
    if wanted == "…":
        return True
    if isinstance(wanted, str) and isinstance(found, str):
        pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
        return re.fullmatch(pattern, found, re.DOTALL) is not None
    return bool(found == wanted)
