"""Penstock on Spark Connect: the same calls and results, no `sparkContext` anywhere; client and server are killed."""

import json

import pytest
from tests.faults.lives import Life
from tests.servers import Connect

from .door import KINDS, Desk
from .elsewhere import command, found_in
from .killed_door import kill, life_command

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.slow]


class ClientAndServer:
    """A Connect server, and the process of its client."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.server = Connect(folder / "server.log")
        self.client = None

    def begin(self):
        self.server.start()
        self.client = Life(command("connect_script", self.folder, self.server.url), self.log)

    def strike_tasks(self):
        """The client. The server goes on, until another client takes the pipeline over."""
        self.client.kill()
        self.client = self._live(stays=True)

    def strike_written(self):
        """The server; its processes end by themselves. The client would ask for it for ten minutes."""
        self.server.kill()
        self.client.kill()

    def end(self):
        self.server.start()
        self.client = self._live(stays=False)
        assert self.client.wait() == 0, self.client.log()

    def check(self):
        assert self.client.process.poll() is None, self.client.log()
        assert self.server.is_alive, self.server.log()

    def close(self):
        if self.client is not None:
            self.client.kill()
        self.server.close()

    def _live(self, *, stays):
        return Life(life_command(self.server.url, self.folder / "door", stays=stays), self.log)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    both = ClientAndServer(tmp_path_factory.mktemp("connect"))
    try:
        door = kill(Desk(None, both.folder / "door"), both, "written")
    finally:
        both.close()
    return {**found_in(both.log.read_text(errors="replace")), "door": door}


def test_it_really_is_a_connect_session(found):
    assert found["session"].startswith("pyspark.sql.connect")


def test_match_gives_lists_and_pairs(found):
    assert found["matched"] == {"1": [1, 2], "2": [1], "3": []}
    assert found["pairs"] == [[1, 1, "alice"], [1, 2, "bob"], [2, 1, "alice"]]


def test_sql_gives_the_same_pairs_and_clear_errors(found):
    assert found["pairs_in_sql"] == found["pairs"]
    assert "subscription 1: unknown attribute 'price'" in found["sql_error"]
    assert "Traceback" not in found["sql_error"]


def test_match_of_a_streaming_dataframe_runs(found):
    assert found["streamed"]


def test_a_pipeline_follows_the_registry(found):
    assert found["files"][:3] == [[0, 1, 1], [0, 1, 2], [1, 3, 3]]


def test_a_pipeline_goes_on_after_a_power_cut(found):
    """Its offsets of a micro-batch that hadn't begun were torn."""
    assert found["files"][3:] == [[2, 4, 3]]


def test_bad_records_become_dead_letters(found):
    assert found["dead"]


def test_figures_come_back_from_the_server(found):
    summary = found["summary"]
    assert (summary["batches"], summary["published"], summary["notifications"]) == (2, 3, 3)
    assert summary["dead_letters"] == 2
    assert [batch["sequence"] for batch in found["batches"]] == [2, 3]
    assert all(batch["seconds"] > 0 for batch in found["batches"])


def test_a_callable_runs_on_the_server(found):
    (process, *first), (_, *second) = sorted(line.split() for line in found["calls"])
    assert int(process) != found["process"]
    assert [first[:2], second[:2]] == [["1", "1"], ["1", "2"]]


def test_operators_are_imported_by_the_server_and_its_workers(found):
    assert found["called"] == [4, 5, 6, 8, 9]
    assert found["watched"] == [4, 5, 6, 8, 9]
    assert [json.loads(raw)["id"] for raw in found["watched_dead"]] == [7]


def test_an_in_memory_registry_is_refused_with_the_reason(found):
    assert found["in_memory"].startswith("PipelineError: with Spark Connect")
    assert "Subscriptions.open" in found["in_memory"]


def test_a_failing_sink_is_told_by_its_own_error(found):
    assert found["failed"].startswith(
        "PipelineError: the pipeline failed: micro-batch 0 is parked: the sink failed 2 times, "
        "at last with ConnectionError: the receiver is down. Nothing is lost"
    )


def test_a_missing_delta_is_told(found):
    assert "penstock[delta]" in found["delta"]


def test_views_get_their_tuples(found):
    assert found["views"] == [[[0], [["5"]]], [[1], [[]]]]
    assert found["rewritings"]


def test_only_what_somebody_wants_is_kept(found):
    """The interest of all subscriptions, as a condition on a DataFrame of the server."""
    assert found["wanted"] == [1, 2, 3]


def test_covering_is_that_of_one_machine(found):
    assert found["covering"]
    assert 300 < found["covered"] < 600


def test_select_joins_give_what_duckdb_finds(found):
    """Both subscribers, the one that was there and the one that came later."""
    assert found["joins"]["views"] == [True, True]


def test_a_change_of_no_table_is_a_dead_letter(found):
    """Changes of all tables in one stream say of which they are; one of another is told."""
    assert found["joins"]["dead"] == ["there is no table 'Bonds': there are Stocks, Reviews"]


def test_select_joins_of_tables_at_rest(found):
    """A batch tells each subscriber the tuples of both tables."""
    told = found["joins"]["batch"]  # who has no range for a table is told by messages of its own
    assert told == [["Reviews", 1], ["Reviews", 2], ["Stocks", 1], ["Stocks", 2]]


def test_every_kind_gets_what_it_asks_for_though_all_is_killed(found):
    """As in one process (`test_one_door`), whoever comes, renews, leaves or expires; nothing is lost, nothing comes
    twice: the client was killed in the middle of tasks, the server before Spark committed."""
    assert found["door"] == {"problems": [], "letters": {f"kind={kind}": 3 for kind in KINDS}}
