"""The dashboard: one page without a build step, drawn from what the API answers.

    index.html, dashboard.css       the page
    dashboard.js                    figures every second, tables every few
    elements.js, plots.js           tables and plots;  service.js: requests to the API, with the caller's key
    network.js                      the tree of brokers, drawn in SVG, and a table of its links
    trying.js                       a subscription that is tried while it is typed; "why, or why not?"
    uplot.min.js, uplot.min.css     uPlot, which draws the plots (MIT licence, uplot.LICENSE)

Everybody gets the page. It stays empty for callers who may not read the figures.
"""

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


def dashboard_pages() -> list[BaseRoute]:
    """The page at `/`, and its files."""
    files = {}
    for file in resources.files(__name__).iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            files[file.name] = kind, file.read_bytes()

    def page(name: str) -> Route:
        kind, content = files[name]

        async def answer(request: Request) -> Response:
            return Response(content, media_type=kind, headers=_HEADERS)

        return Route("/" if name == "index.html" else f"/dashboard/{name}", answer, methods=["GET"])

    return [page(name) for name in files]
