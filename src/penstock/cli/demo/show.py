"""The demo's run: set up, stream, add a subscription while it runs, sum up, explain one notification.

On a terminal it is a live screen, elsewhere plain lines. Either way it ends by itself, or in order on Ctrl-C or
SIGTERM, and leaves nothing running. Spark's messages go to a log beside the notifications.
"""

import functools
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

import penstock
from penstock.base.errors import PenstockError
from penstock.cli.demo import market
from penstock.cli.signals import stop_signals
from penstock.cli.spark import session
from penstock.cli.terminal import INTERRUPTED
from penstock.delivery import FileSink
from penstock.pipeline import Pipeline, RunningPipeline

SUBSCRIPTIONS = 20_000
TICKS_PER_SECOND = 1_000
SECONDS = 40
ADDRESS = "http://localhost:8400"
_MARK = ".penstock-demo"  # marks a folder that a demo has made and may delete


@dataclass
class _Scene:
    """What the screen shows."""

    seconds: int  # for which it streams
    subscriptions: int = SUBSCRIPTIONS
    story: list[str] = field(default_factory=list)
    latest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=8))
    ours: int | None = None
    subscribed_at: float = 0.0
    first_after: float | None = None
    ours_seen: int = 0


def run_demo(seconds: int = SECONDS, folder: Path | None = None) -> int:
    """Run the demo, with some seconds of streaming. Returns the exit code."""
    console = Console()
    target = _fresh(folder or Path("penstock-demo"))
    say = functools.partial(console.print, highlight=False, soft_wrap=True)
    say(f"Penstock demo: market ticks against {SUBSCRIPTIONS:,} subscriptions on local Spark")
    with penstock.Subscriptions.open(f"sqlite:///{target}/subscriptions.db") as subs:
        report = subs.load(market.subscriptions(SUBSCRIPTIONS), lease="forever", progress=False)
        say(f"{report.loaded:,} subscriptions checked and kept in {report.seconds:.1f} s")
        say("starting Spark, and warming up …")
        opened = session("local[*]", "penstock-demo", log=target / "spark.log")
        with opened as spark, stop_signals() as stopping:
            started = time.monotonic()
            _warm_up(spark, subs)
            pipeline = _pipeline(spark, subs, target).start()
            say(f"streaming after {time.monotonic() - started:.1f} s, for {seconds} s")
            scene = _Scene(seconds)
            with pipeline, _screen(console, scene, pipeline) as refresh:
                _play(subs, pipeline, scene, target, stopping, refresh)
            if stopping.is_set():
                say("stopped")
                return INTERRUPTED
            _sum_up(say, subs, pipeline, scene, target)
    return 0


def _pipeline(spark: SparkSession, subs: penstock.Subscriptions, target: Path) -> Pipeline:
    return Pipeline(
        events=market.ticks(spark, TICKS_PER_SECOND),
        subscriptions=subs,
        sink=FileSink(str(target / "notifications"), explode=True),
        checkpoint=target / "checkpoint",
        event_time="traded",
        event_id="tick",
        trigger="1 second",
        metrics=target / "metrics.jsonl",
        name="demo",
    )


def _warm_up(spark: SparkSession, subs: penstock.Subscriptions) -> None:
    """Start Python workers and have Spark compile its code, so that the first ticks don't wait for that."""
    tick = spark.range(2).selectExpr(
        "id AS tick", "'ACME' AS symbol", "'energy' AS sector", "1.0D AS price", "0.0D AS change",
        "1L AS size", "current_timestamp() AS traded",
    )  # fmt: skip
    penstock.match(tick.repartition(2), subs, explode=True).collect()


def _fresh(folder: Path) -> Path:
    """An empty folder of that name. A folder is only deleted if an earlier demo made it."""
    folder = folder.absolute()
    if folder.exists():
        if not (folder / _MARK).exists() and any(folder.iterdir()):
            raise PenstockError(f"{folder} is there already, and not from a demo: move it away")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return folder


# --- the play ----------------------------------------------------------------------------------


def _play(
    subs: penstock.Subscriptions,
    pipeline: RunningPipeline,
    scene: _Scene,
    target: Path,
    stopping: threading.Event,
    refresh: Callable[[], None],
) -> None:
    """Stream a third of the time as it is, a third with one more subscription, a third without it, or until stopped."""
    while pipeline.metrics.last is None and pipeline.is_active and not stopping.wait(0.1):
        pass
    begin, seconds = time.monotonic(), scene.seconds
    seen: set[str] = set()
    ticket = ""
    while (passed := time.monotonic() - begin) < seconds and not stopping.is_set():
        if not pipeline.is_active:
            pipeline.await_termination()  # raises what ended it
        if scene.ours is None and passed > seconds / 3:
            scene.ours, ticket = subs.subscribe("you", f"symbol = '{market.STAR}' AND size >= 100")
            scene.subscriptions += 1
            scene.subscribed_at = time.monotonic()
            scene.story.append(
                f"+{passed:.0f} s  you subscribe to {market.STAR}, size >= 100 (id {scene.ours})"
            )
        if ticket and passed > 2 * seconds / 3:
            assert scene.ours is not None
            subs.unsubscribe(scene.ours, ticket)
            ticket = ""
            scene.subscriptions -= 1
            scene.story.append(f"+{passed:.0f} s  you unsubscribe with your ticket")
        _look(scene, target / "notifications", seen, begin)
        refresh()
        stopping.wait(0.25)


def _look(scene: _Scene, notifications: Path, seen: set[str], begin: float) -> None:
    """Read what newly finished micro-batches have delivered."""
    for batch in sorted(notifications.glob("*/batch=*"), key=lambda p: int(p.name[6:])):
        if batch.name in seen or not (batch / "_SUCCESS").exists():
            continue
        seen.add(batch.name)
        for file in sorted(batch.glob("*.parquet")):
            table = pq.read_table(file, partitioning=None)
            scene.latest.extend(table.slice(0, 4).to_pylist())
            ids = table.column("subscription").to_numpy()
            mine = table.filter(ids == scene.ours) if scene.ours is not None else table.slice(0, 0)
            if mine.num_rows:
                scene.ours_seen += mine.num_rows
                scene.latest.extend(mine.slice(0, 2).to_pylist())
                if scene.first_after is None:
                    scene.first_after = time.monotonic() - scene.subscribed_at
                    scene.story.append(
                        f"+{time.monotonic() - begin:.0f} s  your first notification, "
                        f"{scene.first_after:.1f} s after you subscribed"
                    )


# --- the screen --------------------------------------------------------------------------------


@contextmanager
def _screen(
    console: Console, scene: _Scene, pipeline: RunningPipeline
) -> Iterator[Callable[[], None]]:
    """A live screen on a terminal; elsewhere a line for every few micro-batches and for each line of the story."""
    if console.is_terminal:
        with Live(_picture(scene, pipeline), console=console, refresh_per_second=4) as live:
            yield lambda: live.update(_picture(scene, pipeline))
        return
    printed = 0
    last_line = 0.0

    def refresh() -> None:
        nonlocal printed, last_line
        for line in scene.story[printed:]:
            print(line, flush=True)
        printed = len(scene.story)
        if time.monotonic() - last_line >= 5 and pipeline.metrics.last is not None:
            last_line = time.monotonic()
            print(_line(pipeline), flush=True)

    yield refresh


def _figures(pipeline: RunningPipeline) -> dict[str, str]:
    recent = pipeline.metrics.batches[-5:]
    if not recent:
        return {"waiting": "for the first micro-batch"}
    last = recent[-1].to_dict()
    seconds = sum(max(batch.seconds, 1.0) for batch in recent)
    events = sum(batch.report.published or 0 for batch in recent)
    matches = sum(batch.report.notifications or 0 for batch in recent)
    latency = last["latency_ms"]
    return {
        "events per second": f"{events / seconds:,.0f}",
        "matches per second": f"{matches / seconds:,.0f}",
        "matches per event": f"{matches / max(1, events):.1f}",
        "latency p50 / p95 / p99": " / ".join(f"{latency[p]:,.0f}" for p in ("p50", "p95", "p99"))
        + " ms",
        "snapshot version": f"{last['snapshot']} (change {last['sequence']:,})",
        "micro-batch": str(last["batch"]),
    }


def _line(pipeline: RunningPipeline) -> str:
    return "  ".join(f"{name}: {value}" for name, value in _figures(pipeline).items())


def _picture(scene: _Scene, pipeline: RunningPipeline) -> Group:
    figures = Table.grid(padding=(0, 2))
    figures.add_row("subscriptions", f"{scene.subscriptions:,}")
    for name, value in _figures(pipeline).items():
        figures.add_row(name, value)
    notes = Table("subscriber", "subscription", "symbol", "price", "change %", "size", box=None)
    for row in reversed(scene.latest):
        style = "bold green" if row["subscription"] == scene.ours else ""
        notes.add_row(
            row["subscriber"],
            str(row["subscription"]),
            row["event"]["symbol"],
            f"{row['event']['price']:,.2f}",
            f"{row['event']['change']:+.2f}",
            f"{row['event']['size']:,}",
            style=style,
        )
    return Group(
        Panel(figures, title="Penstock: market ticks", title_align="left"),
        Panel(notes, title="latest notifications", title_align="left"),
        Panel("\n".join(scene.story) or "…", title="what happens", title_align="left"),
    )


# --- the end -----------------------------------------------------------------------------------


def _sum_up(
    say: Callable[[str], None],
    subs: penstock.Subscriptions,
    pipeline: RunningPipeline,
    scene: _Scene,
    target: Path,
) -> None:
    totals = pipeline.metrics.summary()
    found = ds.dataset(target / "notifications", partitioning="hive", exclude_invalid_files=True)
    say("")
    say(
        f"{totals['published']:,} ticks gave {totals['notifications']:,} notifications in "
        f"{totals['batches']} micro-batches"
    )
    say(f"{found.count_rows():,} notifications lie in {_near(target / 'notifications')}")
    say(f"metrics of every micro-batch lie in {_near(target / 'metrics.jsonl')}")
    if scene.first_after is not None:
        say(
            f"your subscription took effect after {scene.first_after:.1f} s "
            f"and brought {scene.ours_seen:,} notifications"
        )
    row = found.head(1).to_pylist()[0]
    schema = {
        "tick": "long", "symbol": "string", "sector": "string", "price": "double",
        "change": "double", "size": "long", "traded": "timestamp",
    }  # fmt: skip
    say(f"\nwhy did {row['subscriber']} get the first of them?")
    say(str(subs.compile(schema).explain(row["subscription"], row["event"])))
    say("\nto publish, subscribe and receive over HTTP, with the same market: make serve, and then")
    say(ADDRESS)
    sys.stdout.flush()


def _near(path: Path) -> str:
    """A path as a person in this folder would write it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
