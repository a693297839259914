"""The benchmarks of select-joins on workloads small enough for a test: what they count, not how long it takes."""

import json
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.benchmarks.conftest import Bench

from benchmarks.baselines.joins.results import JOINED
from benchmarks.baselines.joins.schemes import SCHEMES, SchemeProcessor
from benchmarks.benchmark import Findings
from benchmarks.joins import benchmark, experiments, mixes, multiway, stocks, synthetic, trial
from benchmarks.joins.benchmark import BENCHMARK
from benchmarks.joins.published import DESCRIPTION_BYTES, OURS, STRESS_KB, TITLES
from benchmarks.joins.synthetic import CATALOG, Recipe
from benchmarks.joins.trial import BINARY_EXACT, RESULTS, Referee, Tally, Trial, try_scheme
from benchmarks.joins.workload import Workload, select_joins, turnover
from penstock.joins.changes import ChangeBatch
from penstock.joins.decompose import Decomposition
from penstock.language.literals import double_key

SMALL = Recipe(subscriptions=300, events=60, tuples_of_r=400, tuples_of_s=200)
MIX = mixes.General(40, multiway.ROUND + 8, join_values=10, tuples=(2, 3, 3, 2))
STAR = mixes.Star(60, multiway.STAR_CHECKED + 8, facts=500, others=20)


def quiet(_: str) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def small() -> Workload:
    return synthetic.draw(SMALL)


def columns(batch: ChangeBatch) -> dict[str, np.ndarray]:
    return {
        name: batch.rows[name].to_numpy(zero_copy_only=False) for name in batch.rows.schema.names
    }


def held_after(workload: Workload) -> dict[str, dict[int, dict[str, object]]]:
    """The tables after all events, by key, worked out one change at a time."""
    key = {name: table.key[0] for name, table in workload.catalog.tables.items()}
    tables: dict[str, dict[int, dict[str, object]]] = {name: {} for name in key}
    for batch in (*workload.content, *workload.events):
        gone = np.zeros(len(batch), bool) if batch.deleted is None else batch.deleted
        for row, is_gone in zip(batch.rows.to_pylist(), gone.tolist(), strict=True):
            if is_gone:
                del tables[batch.table][row[key[batch.table]]]
            else:
                tables[batch.table][row[key[batch.table]]] = row
    return tables


# --- workloads ----------------------------------------------------------------------------------


def test_a_workload_is_always_the_same_one_and_events_do_not_depend_on_how_many_subscriptions_there_are():
    """Frozen seeds, apart for subscriptions, tables and events."""
    first, again = synthetic.draw(SMALL), synthetic.draw(replace(SMALL, subscriptions=7))
    assert first.joins[:2] != again.joins[:2]
    for one, other in zip(
        (*first.content, *first.events), (*again.content, *again.events), strict=True
    ):
        assert one.rows.equals(other.rows)
    assert synthetic.draw(SMALL).joins == first.joins


def test_ranges_and_tuples_have_the_parameters_of_table_2():
    """Means and spreads of ranges, join values, and how many insertions join."""
    drawn = synthetic.draw(Recipe(subscriptions=4_000, events=4_000))
    a = np.array([join.sides[0].ranges[0][1].intervals[0] for _, join in drawn.joins])
    c = np.array([join.sides[1].ranges[0][1].intervals[0] for _, join in drawn.joins])
    assert np.diff(a).mean() == pytest.approx(20_000, rel=0.02)
    middle = a.mean(axis=1)
    assert np.abs(middle - 50_000).mean() == pytest.approx(20_000, rel=0.1)
    assert (c.mean(axis=1) < 50_000).mean() == pytest.approx(0.5, abs=0.03)
    assert (np.diff(c) >= 1).all()
    s, r = columns(drawn.content[0]), columns(drawn.events[0])
    assert len(s["b"]) == 5_100
    counts = np.sort(np.bincount(s["b"], minlength=100))[::-1]
    assert (counts > 0).sum() == 70
    assert counts[0] / counts[9] == pytest.approx(10**0.8, rel=0.35)
    assert np.isin(r["b"][::2], s["b"]).mean() == pytest.approx(0.7, abs=0.03)


def test_a_range_without_a_width_is_drawn_again_or_becomes_a_point():
    """One in nine of the ranges of c: it matters, so both are there."""

    def narrow(recipe: Recipe) -> float:
        ends = [join.sides[1].ranges[0][1].intervals[0] for _, join in synthetic.draw(recipe).joins]
        return float(np.mean([past - low <= 2 for low, past in ends]))

    many = replace(SMALL, subscriptions=4_000)
    assert narrow(many) < 0.01
    assert narrow(replace(many, cut_widths=True)) == pytest.approx(0.115, abs=0.02)


def test_tables_keep_their_sizes(small):
    """Each tuple that comes drives out the oldest of its table, which is there."""
    for workload in (small, stocks.draw(5, 120), mixes.draw_general(MIX), mixes.draw_star(STAR)):
        sizes = {name: len(held) for name, held in held_after(workload).items()}
        assert sizes == {batch.table: len(batch) for batch in workload.content}


def test_some_events_at_a_time_are_all_of_them_once():
    """However they are cut, also across batches."""
    workload = mixes.draw_general(MIX)
    whole = [row for batch in workload.events for row in batch.rows["id"].to_pylist()]
    cut = [row for b in workload.batches(0, 10**6, 7) for row in b.rows["id"].to_pylist()]
    assert cut == whole
    some = [row for b in workload.batches(45, 103, 7) for row in b.rows["id"].to_pylist()]
    assert some == whole[90:206]
    assert all(
        b.deleted.tolist() == [False, True] * (len(b) // 2) for b in workload.batches(3, 90, 7)
    )


def test_stocks_and_reviews_are_as_many_as_in_the_paper():
    """Its rate of about 23 rows, 70 of 100 stocks reviewed; ranges are numbers that people write."""
    drawn = stocks.draw(500, 1_000)
    reviews, quotes = columns(drawn.content[0]), columns(drawn.content[1])
    assert len(set(quotes["Symbol"])) == 100
    assert len(set(reviews["Symbol"])) == 70
    assert len(reviews["Symbol"]) / 100 == 23
    assert (reviews["Rating"] >= 1).all()
    assert (reviews["Rating"] <= 10).all()
    comes = sum(len(b) // 2 for b in drawn.events if b.table == "Reviews")
    assert comes == 20
    halves = {double_key(n / 2) for n in range(2, 21)}
    ends = {join.sides[1].ranges[0][1].intervals[0] for _, join in drawn.joins}
    assert all(low in halves and past - 1 in halves for low, past in ends)
    assert np.mean([past - 1 == double_key(10.0) for low, past in ends]) < 1


def test_tuples_that_join_are_near_each_other_in_the_mix():
    """Whichever of its tables a tuple of S joins with: all four have one join attribute."""
    tables = held_after(mixes.draw_general(replace(MIX, tuples=(8, 8, 8, 8))))
    place = np.array([fact["s"] for fact in tables["S"].values()])
    for t in "rtu":
        of = np.array([fact[f"b{t}"] for fact in tables["S"].values()])
        within = [place[of == b].std() for b in set(of.tolist())]
        assert np.mean(within) < 0.5 * place.std()


def test_every_fact_has_one_row_in_the_star():
    """Before, during and after the events."""
    workload = mixes.draw_star(replace(STAR, events=700))
    for events in ([], workload.events):
        tables = held_after(replace(workload, events=events))
        for fact in tables["S"].values():
            assert all(fact[f"b{t.lower()}"] in tables[t] for t in "RTU")


# --- trials -------------------------------------------------------------------------------------


def truth(workload: Workload, changes: int) -> tuple[set[tuple[int, int]], list[int]]:
    """Who is affected by each of the first changes, and how many rows the join gains or loses, by the definition."""
    s = columns(workload.content[0])
    r = {row["id"]: row for row in workload.content[1].rows.to_pylist()}
    found, rows = set(), []
    events = workload.events[0]
    for n, row in enumerate(events.rows.slice(0, changes).to_pylist()):
        if events.deleted[n]:
            row = r.pop(row["id"])
        else:
            r[row["id"]] = row
        c = s["c"][s["b"] == row["b"]]
        rows.append(len(c))
        for sid, join in workload.joins:
            (low, past), (first, end) = (side.ranges[0][1].intervals[0] for side in join.sides)
            if low <= row["a"] < past and ((c >= first) & (c < end)).any():
                found.add((n, sid))
    return found, rows


def test_every_scheme_reaches_those_whom_the_definition_says(small):
    """Affected is who gains or loses a row; Rel-Sel reaches more."""
    expected, _ = truth(small, 60)
    assert len(expected) > 20
    for scheme in SCHEMES:
        processor = SchemeProcessor(CATALOG, small.joins, scheme)
        processor.restore(small.content)
        reached = set()
        for n, batch in enumerate(small.batches(0, 30, 10)):
            pairs = trial.affected(processor.process([batch]), 20 * n)
            reached |= {divmod(int(pair), 1 << 32) for pair in pairs}
        assert reached >= expected
        assert (reached == expected) == (scheme in BINARY_EXACT)


def test_what_is_counted_is_what_the_definition_has(small):
    """Ref-J sends every row of the join, Rel-Sel every tuple once; nobody delivers less than Enum-SJ."""
    _, rows = truth(small, 2 * 20)
    come = sum(rows[::2])
    tallies = {}
    for scheme in ("ref-j", "rel-sel", "enum-sj", OURS, "enum-j"):
        processor = SchemeProcessor(CATALOG, small.joins, scheme)
        processor.restore(small.content)
        tallies[scheme] = Tally()
        for batch in small.batches(0, 20, 20):
            tallies[scheme].count(
                processor.process([batch]), processor.is_unicast, with_readers=True
            )
    size = 3 * 4 + SMALL.payload  # three numbers and a payload
    assert (tallies["ref-j"].sent, tallies["ref-j"].tuples) == (come * 2 * size, come * 2)
    assert tallies["ref-j"].messages == sum(rows)
    assert (tallies["rel-sel"].sent, tallies["rel-sel"].tuples) == (20 * (size + 4), 20)
    unicast = tallies["enum-sj"]
    assert unicast.sent == unicast.delivered == tallies[OURS].delivered == unicast.tuples * size
    assert tallies["enum-j"].sent == tallies["enum-j"].delivered == tallies["ref-j"].delivered
    assert 0 < unicast.delivered < tallies["enum-j"].delivered


def test_points_of_skylines_are_those_of_the_joining_tuples_with_tup(small):
    """A point for each different value of c that joins; the others have no more."""
    trials = {
        t.scheme: t
        for t in experiments.trials(SMALL, 0, experiments.ALL, 40, quiet, "descriptions")
    }
    s = columns(small.content[0])
    distinct = {b: len(np.unique(s["c"][s["b"] == b])) for b in np.unique(s["b"])}
    assert 8 < trials["ref-sj-tup"].description <= 8 * max(distinct.values())
    assert trials[OURS].description <= trials["ref-sj-clu"].description
    assert trials["ref-sj-clu"].description <= trials["ref-sj-tup"].description
    assert not [text for one in list(trials.values()) for text in one.disagreements]


def test_bytes_for_another_payload_are_what_a_trial_with_it_counts():
    """Sent bytes are linear in the payload, for tuples and for rows of joins."""
    light = replace(SMALL, payload=10)
    schemes = ("ref-j+", "enum-sj", OURS, "rel-sel")
    for few, many in zip(
        experiments.trials(light, 0, schemes, 30, quiet, ""),
        experiments.trials(SMALL, 0, schemes, 30, quiet, ""),
        strict=True,
    ):
        assert few.with_payload(10, 100) == pytest.approx(many.sent)
        assert few.sent < many.sent


def test_a_referee_tells_who_is_missed_and_who_is_reached_in_vain():
    """Schemes that aren't exact may reach more, and no fewer."""
    referee = Referee()
    first = 1 << 32
    assert referee.hear("A", OURS, np.array([5, first + 6])) == []
    assert referee.hear("B", "enum-j", np.array([5, first + 6])) == []
    (text,) = referee.hear("C", "ref-j", np.array([5]))
    assert text == "C doesn't reach 1 that A does, among them subscription 6 at change 1"
    (text,) = referee.hear("D", "ref-j", np.array([5, 7, first + 6]))
    assert text == "D reaches 1 that A does not, among them subscription 7 at change 0"
    assert referee.hear("E", "rel-sel", np.array([5, 7, first + 6])) == []
    assert len(referee.hear("F", "rel-sel", np.array([7]))) == 1


def test_all_schemes_are_compared_on_the_same_events(small):
    """Bytes are counted on the same events also of schemes that get fewer, and a wrong answer is found."""
    events = 50
    referee = Referee()
    cheap = try_scheme(small, OURS, events - 10, 1.0, referee, checked=20)
    slow = try_scheme(small, "enum-sj", events - 10, 1.0, referee, checked=20)
    assert cheap.events == slow.events == events - 10
    assert slow.delivered == cheap.delivered
    fewer = replace(small, joins=small.joins[::2])
    wrong = try_scheme(fewer, "enum-sj", 1, 1.0, referee, checked=20)
    assert "doesn't reach" in wrong.disagreements[0]


# --- joins of several tables --------------------------------------------------------------------


def test_a_chosen_decomposition_filters_s_as_it_says_and_six_are_different():
    """Each table of each join by a neighbour that the join has; the greedy choice is the cheapest one."""
    workload = mixes.draw_general(MIX)
    assert len(workload.joins) == 20 + 20 + 20 + 8
    given = ("T", "U", "T")
    choices = multiway.six([given])
    assert choices[0] == given
    assert len(set(choices)) == 6
    for choice in choices:
        for _, join in workload.joins:
            semijoins = dict(multiway.Chosen(choice).of(join))
            assert set(semijoins) == set(join.tables)
            assert all(
                table in (e.left, e.right) and e in join.edges for table, e in semijoins.items()
            )
            signature = "".join(sorted(join.tables))
            expected = dict(zip(("RS", "RST", "RSTU", "STU"), ("R", *choice), strict=True))
            assert multiway.neighbour(semijoins["S"]) == expected[signature]
    cost = {"R": 2.0, "T": 3.0, "U": 1.0}
    costs = {("S", edge): cost[multiway.neighbour(edge)] for edge in workload.catalog.edges}
    assert multiway.greedy(costs) == ("R", "U", "U")
    by_costs = Decomposition(costs)
    mine = multiway.Chosen(multiway.greedy(costs))
    assert all(mine.of(join) == by_costs.of(join) for _, join in workload.joins)


def test_decompositions_reach_all_whose_rows_change(monkeypatch):
    """Against Enum-J on a small mix; the two greedy ones are named, and each table has its turn."""
    monkeypatch.setattr(multiway, "SMALL", MIX)
    found = list(multiway.multiway_trials(MIX, quiet))
    assert not [text for one in found for text in one.disagreements]
    assert [t.scheme for t in found] == [OURS] * 6 + ["rel-sel"]
    labels = " ".join(t.label for t in found)
    assert labels.count("model") == labels.count("simulation") == 1
    assert {
        batch.table for batch in mixes.draw_general(MIX).batches(0, multiway.ROUND, 10**6)
    } == set("RSTU")
    assert found[-1].delivered > max(t.delivered for t in found[:-1])
    assert len(multiway.multiway_sheet(found).rows) == 7


def test_in_the_star_all_schemes_reach_those_whose_rows_change():
    """Facts with and without a payload; rows of joins are sent by Ref-J for each signature."""
    found = list(multiway.star_trials(STAR, quiet))
    assert not [text for one in found for text in one.disagreements]
    assert [t.at for t in found] == [0] * 4 + [100] * 4
    light, heavy = found[:4], found[4:]
    assert all(a.sent <= b.sent for a, b in zip(light, heavy, strict=True))
    assert all(a.delivered < b.delivered for a, b in zip(light, heavy, strict=True))
    by = {t.scheme: t for t in light}
    assert by["rel-sel"].affected >= by[OURS].affected >= by["enum-j"].affected
    assert by["enum-j"].delivered == by["ref-j"].delivered
    assert len(multiway.star_sheet(found).rows) == 8


def test_semijoins_that_reach_too_few_are_found():
    """Were the truth larger than what a decomposition reaches, the referee would say so."""
    workload = mixes.draw_general(MIX)
    referee = Referee(RESULTS)
    try_scheme(workload, "enum-j", 1, 1.0, referee, checked=multiway.ROUND)
    half = replace(workload, joins=workload.joins[::2])
    found = try_scheme(half, OURS, 1, 1.0, referee, checked=multiway.ROUND)
    assert "doesn't reach" in found.disagreements[0]


# --- findings -----------------------------------------------------------------------------------


def made_up(scheme: str, subscriptions: int, **figures: float) -> Trial:
    values = {f.name: 1.0 for f in fields(Trial) if f.type is float or f.type == "float"}
    values |= {"at": subscriptions, **figures}
    return Trial(scheme=scheme, subscriptions=subscriptions, events=1, **values)


def test_figures_to_beat_are_ratios_and_speed():
    """The paper's own tables reach themselves; a scheme that isn't enough better is missed."""
    trials = [
        made_up(
            scheme,
            100_000,
            us=49.0,
            sent=STRESS_KB.get(scheme, {}).get(100_000, 1.0),
            description=DESCRIPTION_BYTES.get(scheme, {}).get(100_000, 1.0),
        )
        for scheme in TITLES
    ]
    more = [*trials, made_up(OURS, 1_000_000, us=99.0)]
    (sheet,) = benchmark.closing([benchmark.subscriptions_section(more)])
    verdicts = {row[0] + row[1]: row[-1].split(",")[0] for row in sheet.rows}
    assert len(verdicts) == 4 + 3 + 3
    assert verdicts.pop("the same, by that at 100,0001,000,000") == "missed"
    assert set(verdicts.values()) == {"reached"}
    worse = [replace(t, sent=1.0, us=51.0) for t in trials]
    (sheet,) = benchmark.closing([benchmark.subscriptions_section(worse)])
    verdicts = [row[-1].split(",")[0] for row in sheet.rows]
    assert verdicts.count("missed") == 4 + 1


@pytest.fixture
def few_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "Recipe", partial(Recipe, tuples_of_r=300, tuples_of_s=200))
    monkeypatch.setattr(stocks, "DAYS", 5)


JOINS = ("joins", "--events", "20", "-n", "200")


@pytest.mark.usefixtures("few_tuples")
def test_the_command_writes_tables_json_and_a_plot(bench: Bench) -> None:
    """One experiment; what it found stands in its file, scheme by scheme."""
    result = bench(*JOINS, "--experiment", "payload", "--out", "results")
    assert result.exit_code == 0
    assert "by payload (figure 18), 200 subscriptions" in result.stdout
    names = {p.name for p in Path("results").iterdir()}
    assert names == {"joins-payload.json", "joins-payload.png", "joins.md"}
    figures = json.loads(Path("results/joins-payload.json").read_text())["figures"]
    assert len(figures) == len(experiments.ALL) * len(experiments.PAYLOADS)
    assert {figure["scheme"] for figure in figures} == set(SCHEMES)


@pytest.mark.usefixtures("few_tuples")
def test_the_command_refuses_if_schemes_disagree(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, and who doesn't reach whom; with --json a line for each trial."""
    honest = trial.affected

    def forgetful(notified, first_change):
        is_joined = any((part.messages.form == JOINED).any() for part in notified.parts)
        return honest(notified, first_change)[:: 2 if is_joined else 1]

    monkeypatch.setattr(trial, "affected", forgetful)
    monkeypatch.setattr(experiments, "OVERLAPS", (0,))
    result = bench(*JOINS, "-x", "overlap", "--json")
    assert result.exit_code == 1
    assert "answers disagree" in result.stderr
    assert "Ref-SJ-Clu+" in result.stderr or "Enum-SJ" in result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["scheme"] for one in found] == list(experiments.SOME)


def test_the_command_knows_its_experiments(bench: Bench) -> None:
    """One that doesn't exist is refused, and told what there is."""
    result = bench(*JOINS, "-x", "network")
    assert result.exit_code == 2
    for name in (*BENCHMARK.experiments, *BENCHMARK.on_request):
        assert name in result.stderr


@pytest.mark.usefixtures("few_tuples")
def test_every_experiment_is_a_section_with_tables_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that vary something have a column for each value."""
    monkeypatch.setattr(experiments, "TUPLES_OF_R", (100, 300))
    found = Findings(BENCHMARK)
    for section in BENCHMARK.run(("database", "widths", "stocks"), benchmark.Work([100], 20)):
        found.add(section)
        found.write(tmp_path)
    assert (tmp_path / "joins-stocks.png").stat().st_size > 1_000
    database, widths, on_stocks = found.sections
    assert len(widths.sheets[0].rows) == len(experiments.WIDTH_CHOICES) * len(experiments.DESCRIBED)
    assert database.sheets[0].columns == ("scheme", "100", "300")
    assert [row[0] for row in database.sheets[0].rows][-1] == "Rel-Sel"
    assert on_stocks.sheets[0].columns == ("scheme", "100")
    assert not found.disagreements
    page = (tmp_path / "joins.md").read_text()
    assert page.index("figure 7") < page.index("figure 10")


def test_ranges_become_select_joins_and_tuples_changes():
    """Select-joins have the ranges they were given; tuples that come stand beside those that go."""
    ranges = np.array([[1, 5], [2, 2]])
    joins = select_joins(CATALOG.edges, [("R", "a", ranges), ("S", "c", ranges + 1)], 10)
    assert [sid for sid, _ in joins] == [10, 11]
    assert joins[1][1].sides[1].ranges[0][1].intervals == ((3, 4),)
    moved = turnover("R", pa.RecordBatch.from_pydict({"id": [8], "a": [1]}), [3])
    assert moved.rows.to_pylist() == [{"id": 8, "a": 1}, {"id": 3, "a": 1}]
    assert moved.deleted.tolist() == [False, True]
