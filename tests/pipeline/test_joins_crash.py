"""Kill -9 of a pipeline of select-joins; subscriptions come and go between its lives. Nothing is lost or doubled."""

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter

import pytest
from tests.sizes import PATIENCE

import penstock

from .elsewhere import ROOT, command, environment
from .joins_scenes import CATALOG, Market, notifications, pipeline, random_text, view_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# The last life is the test's own session. Before a sink has written, and when it has but Spark doesn't know yet.
KILLS = [("pinned", 1), ("written", 2)]


def live(folder, moment, batch) -> int:
    with (folder / "driver.log").open("w") as log:
        process = subprocess.Popen(
            command("joins_crash_script", folder, moment, batch),
            stdout=log, stderr=log, cwd=ROOT, env=environment(), start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def aftermath(spark, tmp_path_factory):
    """Everything after three lives: the folder, the market, the texts of those who are still subscribed."""
    folder = tmp_path_factory.mktemp("joins-crash")
    url = f"sqlite:///{folder}/subs.db"
    market, rng = Market(folder / "in", 7), random.Random(7)
    texts: dict[int, str] = {}
    codes = []
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        for kill in [*KILLS, None]:
            for _ in range(5):
                text = random_text(rng)
                texts[subs.subscribe("someone", text, lease="forever")[0]] = text
            sid = rng.choice(list(texts))
            subs.remove(sid)
            del texts[sid]
            for _ in range(6):
                market.changes(30)
            if kill is not None:
                codes.append(live(folder, *kill))
            else:
                pipeline(folder, spark, url).start().await_termination(PATIENCE)
    log = (folder / "driver.log").read_text()[-3000:]
    assert codes == [-signal.SIGKILL] * len(KILLS), log
    return folder, market, texts


def test_nothing_is_lost(aftermath):
    """Every view, fed from the sink, is DuckDB's result on all changes."""
    folder, market, texts = aftermath
    batches = notifications(folder / "out")
    for sid, text in texts.items():
        assert Counter(map(tuple, view_of(text, sid, batches))) == market.result(text), text


def test_nothing_is_doubled(aftermath):
    """No notification is in the sink twice, and every micro-batch is there once."""
    folder, *_ = aftermath
    batches = notifications(folder / "out")
    ids = [row["notification_id"] for rows in batches.values() for row in rows]
    assert len(set(ids)) == len(ids) > 100
    assert sorted(batches) == list(range(max(batches) + 1))


def test_the_lives_ended_where_they_should(aftermath):
    """One micro-batch had run to its end but not to its sink; one was in its sink, and was not run again."""
    folder, *_ = aftermath
    commits = {int(p.name) for p in (folder / "checkpoint/commits").iterdir() if p.name.isdigit()}
    assert {1, 2} <= commits
