"""`penstock warm-up`: compiles the kernels that commands and every Spark worker need, once, into their cache.

Processes that start together would compile the same kernels side by side: Numba's cache has no lock. Small examples go
through the public API. Kernels that they don't reach are compiled when they are first needed.
"""

import gc
import subprocess
import sys
import time
from typing import Annotated

import typer

from penstock.base.kernel_watchers import watch_kernels
from penstock.cli.terminal import count, report_errors, say

_SCHEMA = {
    "symbol": "string", "sector": "string", "price": "double", "change": "double", "size": "long",
}  # fmt: skip
_TICKS = 3000
_OBJECTS = 100_000  # between garbage collections; with Python's 700 these take a tenth of the time
_LATER = ["price > 5 AND size = 7", "price > 6", "size = 7", "price > 5 OR size > 9"]
_TEXTS = [
    "symbol LIKE '%OO%'", "symbol ILIKE 'g%' AND price > 5", "regexp_matches(sector, 'a+b')",
    "starts_with(symbol, 'A')", "price * size > 10 AND lower(sector) = 'tech'",
]  # fmt: skip
_PATTERNS = ["//a/b{val}", "//a[b{val}]//c{cont}", "//b[. = '5']", "//c"]


def compile_filters() -> None:
    """Compile reading, planning, matching with every engine, covering, interest."""
    import numpy as np
    import pyarrow as pa

    import penstock
    from penstock.cli.demo import market
    from penstock.matching import ENGINES

    subs = penstock.Subscriptions(_SCHEMA)
    subs.load(market.subscriptions(500), lease="forever", progress=False)
    rng = np.random.default_rng(1)
    ticks = pa.record_batch(
        {
            "symbol": rng.choice(market.symbols(), _TICKS),
            "sector": rng.choice(market.SECTORS, _TICKS),
            "price": rng.uniform(1, 500, _TICKS),
            "change": rng.normal(0, 2, _TICKS),
            "size": rng.integers(1, 10_000, _TICKS),
        }
    )
    (tick,) = ticks.slice(0, 1).to_pylist()
    one = penstock.Subscriptions(_SCHEMA)  # so few that other kernels match them
    one.subscribe("somebody", "symbol = 'GOOG' AND price > 500")
    one.compile(_SCHEMA).match_batch(ticks)
    one.compile(_SCHEMA).explain(1, tick)
    texts = penstock.Subscriptions(_SCHEMA)
    for text in _TEXTS:
        texts.subscribe("somebody", text)
    texts.compile(_SCHEMA).match_batch(ticks)
    texts.compile(_SCHEMA).match(tick)
    for engine in ENGINES:
        matcher = subs.compile(_SCHEMA, engine=engine)
        matcher.match_batch(ticks)
        matcher.match(tick)
    live = subs.live(_SCHEMA)
    for sid, text in enumerate(_LATER, start=1_000):
        live.add(sid, text)
    live.match(tick)
    for sid in range(1_000, 1_000 + len(_LATER)):
        live.remove(sid)
    subs.covering()
    penstock.interest(subs, columns=["price", "size"])


def compile_operators() -> None:
    """Compile the choice of the next call, with every strategy."""
    import pyarrow as pa

    import penstock
    from penstock.operators.strategies import STRATEGIES

    @penstock.operator("warm", cost="1 ms")
    def warm(size: int) -> int:
        return size % 3

    @penstock.operator("cold", cost="2 ms")
    def cold(size: int) -> int:
        return size % 5

    subs = penstock.Subscriptions(_SCHEMA, operators=[warm, cold])
    for n in range(4):
        subs.subscribe("somebody", f"price > {n} AND warm(size) > 0 AND cold(size) = {n}")
        subs.subscribe("somebody", f"symbol = 'S{n}' AND cold(size) < {n}")
    events = [{"symbol": "S1", "price": float(n), "size": n} for n in range(40)]
    batch = pa.RecordBatch.from_pylist(events)
    for strategy in STRATEGIES:
        matcher = subs.compile(_SCHEMA, strategy=strategy)
        matcher.match_batch(batch)
        matcher.match(events[0])


def compile_views() -> None:
    """Compile embedding, rewriting, choosing; reading documents, extraction, evaluation."""
    import penstock
    from penstock.views.dissemination import Dissemination
    from penstock.views.documents.json_documents import read_json
    from penstock.views.documents.xml_documents import read_xml
    from penstock.views.pattern_parser import parse_pattern

    plan = penstock.plan_views(_PATTERNS).plan
    network = Dissemination([parse_pattern(text) for text in plan.texts], plan.fed)
    list(network.run(read_xml(["<r><a><b>5</b><c/></a></r>"] * 2)))
    list(network.run(read_json(['{"a": {"b": 5, "c": 1}}'] * 2)))


def compile_joins() -> None:
    """Compile rectangles, skylines, exposure, readers."""
    import numpy as np
    import pyarrow as pa

    import penstock
    from penstock.joins.changes import ChangeBatch
    from penstock.joins.processor import Processor
    from penstock.joins.selects import read_select

    table = penstock.Table({"id": "int", "b": "int", "x": "int"}, key="id")
    catalog = penstock.Catalog.of({"R": table, "S": table}, edges=[("R", "S", "b")])
    texts = [
        f"SELECT * FROM R JOIN S USING (b) WHERE R.x > {n} AND S.x BETWEEN {n} AND {n + 3}"
        for n in range(40)
    ]
    joins = {n: read_select(text, catalog).join for n, text in enumerate(texts)}
    processor = Processor(catalog, joins)
    for name in ("R", "S", "S", "R"):
        rows = [{"id": n, "b": n % 3, "x": n} for n in range(40)]
        batch = pa.RecordBatch.from_pylist(rows, catalog.tables[name].schema.to_arrow())
        processor.process([ChangeBatch(name, batch)]).readers()
        gone = batch.take(pa.array(range(0, 40, 3)))
        processor.process([ChangeBatch(name, gone, np.ones(gone.num_rows, np.bool_))]).readers()


_ROOMS = {
    "filters": compile_filters,
    "operators": compile_operators,
    "views": compile_views,
    "joins": compile_joins,
}
_SIDE_BY_SIDE = (("joins", "filters", "operators"), ("views",))
"""The rooms of each of two processes. All rooms but views share the engines' kernels, so one process compiles these."""


@report_errors()
def warm_up(
    rooms: Annotated[
        list[str] | None,
        typer.Argument(metavar="|".join(_ROOMS), help="What is compiled; everything if not said."),
    ] = None,
) -> None:
    """Compile everything that is compiled once: a minute or two, in two processes.

    Where nothing of it has changed since the last time, it ends at once.

    Examples:
    penstock warm-up
    penstock warm-up filters
    """
    unknown = [room for room in rooms or () if room not in _ROOMS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}: there are {', '.join(_ROOMS)}")
    if rooms:
        for room in rooms:
            _compile(room)
        return
    program = [sys.executable, "-m", "penstock", "warm-up"]
    started = [subprocess.Popen([*program, *some]) for some in _SIDE_BY_SIDE]
    codes = [process.wait() for process in started]
    if any(codes):
        raise typer.Exit(1)


def _compile(room: str) -> None:
    kernels: list[str] = []
    watch_kernels(kernels.append)
    started = time.monotonic()
    say(f"{room}: compiling …")
    gc.set_threshold(_OBJECTS)
    _ROOMS[room]()
    say(f"{room}: {count(len(kernels), 'kernel')} in {time.monotonic() - started:.0f} s")
