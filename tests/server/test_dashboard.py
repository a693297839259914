"""The dashboard in a real browser: what a person sees, types and is told."""

from collections.abc import Iterator

import pytest
from tests.server.browser import Browser, browser
from tests.server.web import WebService, web_service
from tests.servers import NoServer

from penstock.server.web.http_settings import HttpSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    try:
        with browser() as found:
            yield found
    except NoServer as reason:
        pytest.skip(f"no browser: {reason}")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    with web_service(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture
def page(window: Browser, web: WebService) -> Browser:
    window.resize(1300, 1000)
    window.open(f"{web.url}/")
    window.wait(lambda: window.text("state") == "running")
    return window


def test_figures_follow_what_is_published(page, web):
    """Rates, totals, events and notifications appear by themselves; the browser has nothing to complain of."""
    web.subscribe("price > 5")
    before = web.get("/v1/status").json()["inbox"]["last"]
    assert web.post("/v1/events", [{"symbol": "GOOG", "price": 550.5}] * 3).status_code == 202
    page.wait(lambda: "550.5" in page.text("notifications-table"))
    page.wait(lambda: str(before + 3) in page.text("events-table"))
    page.wait(lambda: "alice" in page.text("subscriptions-table"))
    page.wait(lambda: "published since the start" in page.text("tiles"))
    assert "filter" in page.text("matching-table")
    assert page.run("return document.querySelectorAll('#plot-rates canvas').length") == 1
    assert page.complaints() == []


_COLOUR_BETWEEN = """
const done = arguments[0], place = document.createElement('div');
place.id = 'plot-here';
document.body.append(place);
import('/dashboard/plots.js').then(({ Plot }) => {
  const { plot } = new Plot('plot-here', [['latency', '--accent']], ' ms');
  plot.setData([[0, 2, 4, 6, 8], [5.3, null, null, null, 5.3]]);
  setTimeout(() => {
    const x = plot.valToPos(4, 'x', true), y = plot.valToPos(5.3, 'y', true);
    done([...plot.ctx.getImageData(Math.round(x), Math.round(y), 1, 1).data]);
    place.remove();
  }, 200);
});
"""


def test_a_plot_is_a_line_although_something_is_told_only_now_and_then(page):
    """Spark's micro-batches may be seconds apart: between two of them there is a line, not nothing."""
    red, _, blue, _ = page.ask("POST", "/execute/async", script=_COLOUR_BETWEEN, args=[])
    assert blue - red > 80


def test_a_filter_is_checked_as_one_types(page, web):
    """An error has its place and a hint; a filter that is right is tried on what was published; a button subscribes."""
    web.post("/v1/events", [{"symbol": "GOOG", "price": 7.0}, {"symbol": "IBM", "price": 1.0}])
    page.type("try-text", "prise > 5")
    page.wait(lambda: "did you mean 'price'?" in page.text("try-answer"))
    assert "^^^^^" in page.text("try-answer")
    page.type("try-text", "price = 7 AND symbol = 'GOOG'")
    page.wait(lambda: "match" in page.text("try-answer"))
    assert '"symbol":"GOOG"' in page.text("try-answer")
    page.type("try-subscriber", "bob")
    page.click("#try-subscribe")
    page.wait(lambda: "of bob" in page.text("try-answer"))
    page.wait(lambda: "bob" in page.text("subscriptions-table"))


def test_why_not(page, web):
    """An event of the list and a subscription: each condition, and the value that it met."""
    made = web.subscribe("price > 500")
    first = web.post("/v1/events", {"symbol": "GOOG", "price": 5.0}).json()["first"]
    page.wait(lambda: str(first) in page.text("events-table"))
    page.type("why-subscription", str(made["id"]))
    page.type("why-position", str(first))
    page.click("#why-form button")
    page.wait(lambda: "It doesn't match." in page.text("why-answer"))
    assert "price is 5" in page.text("why-answer")


def test_subscriptions_are_found(page, web):
    """By what is in their text, and by kind."""
    web.subscribe("symbol = 'NEEDLE'", "carol")
    page.type("subscriptions-search", "needle")
    page.wait(lambda: "carol" in page.text("subscriptions-table"))
    assert "alice" not in page.text("subscriptions-table")
    page.run("document.getElementById('subscriptions-kind').value = 'tree-pattern'")
    page.type("subscriptions-search", "needles")
    page.wait(lambda: "None like that." in page.text("subscriptions-table"))


def test_what_is_published_is_never_read_as_html(page, web):
    """A name that is a script is shown, and not run."""
    evil = "<img src=x onerror='document.title=1'>"
    web.subscribe("price > 5", evil)
    web.post("/v1/events", {"symbol": evil, "price": 7.0})
    page.wait(lambda: "onerror" in page.text("notifications-table"))
    page.wait(lambda: "onerror" in page.text("subscriptions-table"))
    assert page.run("return document.title") == "Penstock"


def test_on_a_phone_and_without_a_mouse(page):
    """Nothing is wider than the screen; every control is reached by the tab key, and shows that it is."""
    page.resize(390, 844)
    page.wait(lambda: page.run("return innerWidth") < 520)
    page.wait(lambda: page.run("return document.documentElement.scrollWidth <= innerWidth"))
    reached = set()
    for _ in range(60):
        page.press("\ue004")
        reached.add(page.run("return document.activeElement.id || document.activeElement.tagName"))
    assert {"try-text", "why-subscription", "subscriptions-search"} <= reached


@pytest.mark.parametrize("width", [1300, 2200])
def test_no_section_leaves_a_hole(page, width):
    """Whatever the width, what stands beside each other fills the page, and figures stand on one line."""
    page.resize(width, 1000)
    page.wait(lambda: page.run("return innerWidth") > width - 50)
    ends = page.run(
        "return ['events', 'subscriptions', 'dead-letters', 'matching']"
        ".map(id => Math.round(document.getElementById(id).getBoundingClientRect().right))"
    )
    assert len(set(ends)) == 1
    tops = page.run(
        "return [...document.querySelectorAll('.tile dd')].map(one => one.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 1


def test_on_a_phone_links_lead_to_what_is_seen_and_records_have_room(page, web):
    """The header doesn't stay above what a link leads to; a record isn't squeezed beside its position."""
    web.post("/v1/events", {"symbol": "GOOG", "price": 550.5})
    page.resize(390, 844)
    page.wait(lambda: page.run("return innerWidth") < 520)
    page.wait(lambda: "GOOG" in page.text("events-table"))
    page.click("nav a[href='#why']")
    seen = "const r = document.getElementById('why-title').getBoundingClientRect();"
    page.wait(
        lambda: page.run(
            f"{seen} return document.elementFromPoint(r.left + 5, r.top + 5)?.id === 'why-title'"
        )
    )
    shares = page.run(
        "return [...document.querySelectorAll('#events-table td.text')]"
        ".map(one => one.clientWidth / document.getElementById('events-table').clientWidth)"
    )
    assert min(shares) > 0.9


def test_a_service_with_keys_asks_for_one(tmp_path, window):
    """Nothing is shown without a key; with an admin's everything is."""
    with web_service(tmp_path, http=HttpSettings()) as web:
        key = web.service.keys.add("admin", ["admin"])
        web.service.keys.refresh()
        window.open(f"{web.url}/")
        window.wait(lambda: "give one with the scope admin" in window.text("trouble"))
        assert window.text("tiles") == ""
        window.type("key", key)
        window.click("#key-form button")
        window.wait(lambda: window.text("state") == "running")


def test_a_service_that_is_gone_is_said(tmp_path, window):
    """The page keeps what it had, and says that it is old."""
    with web_service(tmp_path) as web:
        window.open(f"{web.url}/")
        window.wait(lambda: window.text("state") == "running")
    window.wait(lambda: window.text("state") == "not reached")
    assert "doesn't answer" in window.text("trouble")
