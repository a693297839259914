"""Views on Spark: the same graphs, the same tuples, wherever they are computed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.sizes import PATIENCE

import penstock
from penstock.base.errors import PipelineError, SchemaError
from penstock.delivery import CallableSink, FileSink
from penstock.pipeline.pins import Pins
from penstock.pipeline.views.graphs_on_spark import graphs_on_spark
from penstock.pipeline.views.levels import read_levels
from penstock.pipeline.views.match import match_views
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.configuration import Inputs
from penstock.views.pattern_parser import parse_pattern
from penstock.views.plan_file import ViewsPlan
from penstock.views.rewriting.embedding_graph import rank_views
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.graphs import find_embeddings, find_rewritings

from .scenes import forget_commit

TEXTS = (
    "//item{ID}[topic{val}]",
    "//item[author{val}]",
    "//item[topic = 'ACME'][author{val}]",
    "//item[topic = 'ACME'][author = 'Ann']",
    "//item[author{val}]",
    "//headline{cont}",
)
INPUTS = ([], [], [0, 1], [2], [1], [])
DOCUMENTS = {
    "d1": "<news><item><topic>ACME</topic><author>Ann</author><headline>Up</headline></item></news>",
    "d2": "<news><item><topic>Other</topic><author>Bob</author></item><item><author>Cy</author></item></news>",
    "d3": "<news><item><topic>ACME</topic><author>Bob</author><author>Ann</author></item></news>",
    "broken": "<news><item>",
    "nothing": "<news/>",
}
EXPECTED = {
    ("d1", (1, 4)): [["Ann"]],
    ("d2", (1, 4)): [["Bob"], ["Cy"]],
    ("d3", (1, 4)): [["Bob"], ["Ann"]],
    ("d1", (2,)): [["Ann"]],
    ("d3", (2,)): [["Bob"], ["Ann"]],
    ("d1", (3,)): [[]],
    ("d3", (3,)): [[]],
    ("d1", (5,)): [["<headline>Up</headline>"]],
}


def plan() -> ViewsPlan:
    count = len(TEXTS)
    start = np.cumsum([0, *map(len, INPUTS)])
    fed = Inputs(start, np.array([view for inputs in INPUTS for view in inputs], np.int32))
    free = Capacities(np.full(count, 9), 9)
    return ViewsPlan(TEXTS, fed, np.arange(count), free, np.ones(count), np.ones(count))


def frame(spark):
    return spark.createDataFrame(list(DOCUMENTS.items()), "name string, body string").repartition(2)


def found_in(rows) -> dict:
    """Tuples by document and views, but for the view that returns IDs."""
    return {(row.id, tuple(row.views)): row.tuples for row in rows if list(row.views) != [0]}


def test_documents_that_cannot_be_read_are_counted_where_nothing_keeps_them(spark, caplog):
    """A warning says how many, when the frame has been run."""
    rows = [("a", "<a/>"), ("b", "<a>"), ("c", "no document"), ("d", "<a/>")]
    documents = spark.createDataFrame(rows, "id string, document string").coalesce(1)
    assert len(match_views(documents, ["//a"]).collect()) == 2
    assert "2 documents couldn't be read" in caplog.text


def test_every_view_gets_its_tuples_along_a_plan(spark, tmp_path):
    """Views of three levels, one of them twice; what can't be read is told, the rest goes on."""
    told = match_views(
        frame(spark),
        plan(),
        document="body",
        id="name",
        levels=tmp_path / "levels",
        dead_letters=tmp_path / "letters",
    )
    rows = told.collect()
    assert found_in(rows) == EXPECTED
    assert len({row.notification_id for row in rows}) == len(rows)
    (letter,) = [
        json.loads(line)
        for path in (tmp_path / "letters").glob("*/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert letter["reason"].startswith("document broken: no xml document:")
    assert letter["raw"] == DOCUMENTS["broken"]
    levels = read_levels(tmp_path / "levels")
    assert [(one.level, one.patterns, one.views) for one in levels] == [
        (1, 3, 4),
        (2, 1, 1),
        (3, 1, 1),
    ]
    assert [one.tuples for one in levels] == [3 + 5 + 1, 3, 2]
    assert {one.documents for one in levels} == {len(DOCUMENTS)}


def test_patterns_without_a_plan_are_extracted_straight_from_the_documents(spark):
    """The same rows, from the source; and one for each view."""
    told = match_views(frame(spark), TEXTS, document="body", id="name")
    assert found_in(told.collect()) == EXPECTED
    single = match_views(frame(spark), TEXTS, document="body", id="name", explode=True).collect()
    assert sorted((row.id, row.view) for row in single if row.view) == sorted(
        (name, view) for name, views in EXPECTED for view in views
    )


def test_tree_patterns_of_a_registry(spark):
    """The same rows by the ids of subscriptions, whatever else is in the registry."""
    subs = penstock.Subscriptions()
    subs.subscribe("bob", "price > 5")
    ids = [subs.subscribe("alice", text)[0] for text in TEXTS]
    told = match_views(frame(spark), subs, document="body", id="name").collect()
    numbers = {sid: number for number, sid in enumerate(ids)}
    found = {
        (row.id, tuple(numbers[sid] for sid in row.views)): row.tuples
        for row in told
        if list(row.views) != ids[:1]
    }
    assert found == EXPECTED
    assert len({row.notification_id for row in told}) == len(told)


def test_json_documents(spark):
    """Keys are elements; a binary column will do."""
    rows = [
        (1, b'{"item": [{"topic": "ACME", "author": "Ann"}, {"author": "Bob"}]}'),
        (2, b"[]"),
        (3, None),
    ]
    documents = spark.createDataFrame(rows, "id int, document binary")
    found = match_views(documents, ["//item[topic = 'ACME'][author{val}]"], format="json").collect()
    assert [(row.id, row.views, row.tuples) for row in found] == [(1, [0], [["Ann"]])]


def test_what_is_no_column_of_documents_is_refused(spark):
    """Before anything runs, with what there is."""
    documents = spark.createDataFrame([(1, 2)], "id int, document int")
    with pytest.raises(SchemaError, match="no column 'text': there are id, document"):
        match_views(documents, ["//a"], document="text")
    with pytest.raises(SchemaError, match="is int, not string or binary"):
        match_views(documents, ["//a"])
    with pytest.raises(PipelineError, match="'xml' or 'json', not 'csv'"):
        match_views(documents, ["//a"], format="csv")


def test_graphs_of_a_job_are_those_of_one_process(spark, tmp_path, monkeypatch):
    """Ranges of views, worked on apart, give the same embeddings and rewritings."""
    monkeypatch.setattr("penstock.pipeline.views.graphs_on_spark._FEWEST", 2)
    patterns = [parse_pattern(text) for text in TEXTS]
    told: list[tuple[str, int]] = []
    found = graphs_on_spark(
        spark, patterns, folder=tmp_path, progress=lambda phase, done: told.append((phase, done))
    )
    flat = flatten(patterns)
    graph = find_embeddings(flat)
    expected = find_rewritings(flat, graph, rank_views(flat, graph))
    for mine, theirs in ((found.embedding, graph), (found.rewriting, expected)):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(expected.inputs)
    assert told[-1] == ("rewritings", len(TEXTS))
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def streamed(spark, tmp_path_factory):
    """A pipeline that was run twice: over some documents, and over all of them. A pattern comes in between."""
    folder: Path = tmp_path_factory.mktemp("views")
    subs = penstock.Subscriptions()
    for number, text in enumerate(TEXTS):
        subs.subscribe(f"reader {number}", text)
    subs.subscribe("filter", "price > 5")
    names = list(DOCUMENTS)
    runs = []
    for some in (names[:2], names[2:]):
        lines = [json.dumps({"id": name, "document": DOCUMENTS[name]}) for name in some]
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{some[0]}.json").write_text("\n".join(lines))
        running = pipeline(spark, folder, subs).start()
        assert running.await_termination(PATIENCE)
        runs.append(running)
        if len(runs) == 1:
            late, _ = subs.subscribe("late", "//topic[. = 'ACME']{val}")
    return folder, runs, late


def pipeline(spark, folder, subs, **changes):
    feeding = penstock.LiveOptions(plan="live")
    settings = {
        "documents": {"format": "json", "path": str(folder / "in")},
        "views": penstock.ViewOptions(feeding=feeding),
        "subscriptions": subs,
        "sink": FileSink(str(folder / "out"), "json"),
        "checkpoint": folder / "checkpoint",
        "trigger": "available-now",
        "spark": spark,
    }
    return penstock.Pipeline(**{**settings, **changes})


def test_a_pipeline_delivers_each_document_once(spark, streamed):
    """Over a restart: every view its tuples, its readers' names, dead letters in their place, figures of each level."""
    folder, runs, late = streamed
    rows = spark.read.json(str(folder / "out")).collect()
    assert {row.kind for row in rows} == {"tree-pattern"}
    assert len({row.notification_id for row in rows}) == len(rows) > len(EXPECTED)
    first = {
        (row.document.id, tuple(n - 1 for n in row.subscriptions)): row.document.tuples
        for row in rows
        if late not in row.subscriptions and row.subscriptions != [1]
    }
    assert first == EXPECTED
    for row in rows:
        if late not in row.subscriptions:
            assert row.subscribers == [f"reader {n - 1}" for n in row.subscriptions]
    letters = spark.read.json(str(folder / "checkpoint/penstock/dead-letters")).collect()
    assert [letter.raw for letter in letters] == [DOCUMENTS["broken"]]
    report = runs[1].metrics.last.report
    assert len(report.levels) > 1, "no view is fed from another"
    assert (report.published, report.dead_letters, report.notifications) == (3, 1, 6)
    assert [one["documents"] for one in report.levels] == [3] * len(report.levels)


def test_a_pattern_that_comes_counts_from_the_next_micro_batch(spark, streamed):
    """It gets nothing of the documents that were there before it."""
    folder, _, late = streamed
    rows = penstock.explode(spark.read.json(str(folder / "out"))).collect()
    mine = [row for row in rows if row.subscription == late]
    assert [(row.document.id, row.document.tuples, row.subscriber) for row in mine] == [
        ("d3", [["ACME"]], "late")
    ]


def test_a_replay_uses_the_patterns_of_its_pin(spark, streamed, tmp_path):
    """A micro-batch that wasn't committed is worked on as it was planned, whatever came or went since."""
    folder, _, _ = streamed
    shutil.copytree(folder, tmp_path / "copy")
    forget_commit(tmp_path / "copy", 1, "documents")
    before = {
        row.notification_id
        for row in spark.read.json(str(folder / "out/kind=tree-pattern/batch=1")).collect()
    }
    shutil.rmtree(tmp_path / "copy/out/kind=tree-pattern/batch=1")
    later = penstock.Subscriptions()
    again: list = []
    sink = CallableSink(again.append, explode=False)
    pins = Pins(tmp_path / "copy/checkpoint/documents")
    running = pipeline(
        spark,
        tmp_path / "copy",
        later,
        documents={"format": "json", "path": str(folder / "in")},
        sink=sink,
    )
    assert running.start().await_termination(PATIENCE)
    assert pins.find(1).snapshot.version == 2
    assert {row["notification_id"] for row in again} == before


def test_what_are_no_documents_is_refused(spark, tmp_path):
    """Before anything starts, with what to do."""
    at_rest = spark.createDataFrame([("a", "b")], "id string, document string")
    subs = penstock.Subscriptions()
    with pytest.raises(PipelineError, match="streaming"):
        pipeline(spark, tmp_path, subs, documents=at_rest).start()
    stream = spark.readStream.format("rate").load()
    with pytest.raises(SchemaError, match="no column 'document'"):
        pipeline(spark, tmp_path, subs, documents=stream).start()
    views = penstock.ViewOptions(format="html")
    with pytest.raises(PipelineError, match="'xml' or 'json'"):
        pipeline(spark, tmp_path, subs, views=views).start()


def test_each_file_of_a_folder_is_a_document(spark, tmp_path):
    """A source of format binaryFile: the document is its content, and it is called by its path."""
    (tmp_path / "news").mkdir()
    (tmp_path / "news/a.xml").write_text("<a><b>5</b></a>")
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "//b{val}")
    out: list = []
    source = {"format": "binaryFile", "path": str(tmp_path / "news")}
    piped = pipeline(spark, tmp_path, subs, documents=source, sink=CallableSink(out.append))
    assert piped.start().await_termination(PATIENCE)
    assert [(row["subscriber"], row["document"]["tuples"]) for row in out] == [("alice", [["5"]])]
    assert out[0]["document"]["id"].endswith("news/a.xml")
