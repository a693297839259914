"""What workers do to documents: rows that aren't too large, and dead letters that keep what they are about."""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipeline.views import match
from penstock.pipeline.views import view_rows as rows
from penstock.pipeline.views.match import PLAN, direct_plan
from penstock.views import text_columns
from penstock.views.plan_file import write_plan

NESTED = "<a>" * 12 + "</a>" * 12
TEXTS = ("//a{cont}", "//a{cont}/a{cont}", "//a{cont}", "//b")


def _run(
    folder: Path, documents: list[bytes | str], explode: bool = False
) -> tuple[list[pa.RecordBatch], list[dict[str, str]]]:
    """The batches of a task and its dead letters."""
    if not (folder / PLAN).exists():
        write_plan(direct_plan(TEXTS), folder / PLAN)
    work = match._FrameWork(
        format="xml",
        levels=None,
        letters=str(folder / "letters"),
        costs=None,
        lost=None,
        plan=str(folder / PLAN),
        explode=explode,
    )
    kind = pa.binary() if isinstance(documents[0], bytes) else pa.string()
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(documents))), pa.array(documents, kind)], names=["id", "text"]
    )
    found = list(work.run([batch]))
    left = [path.read_text() for path in folder.glob("letters/**/*.jsonl")]
    return found, [json.loads(line) for text in left for line in text.splitlines()]


@pytest.mark.parametrize("explode", [False, True])
def test_rows_that_are_too_large_together_are_several_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explode: bool
) -> None:
    """In as many batches as are needed, the rows are the same; a batch has what may go together, or one row."""
    documents: list[bytes | str] = ["<a>x</a>", NESTED, "<r/>", NESTED, "<a/>", "<b/>"]
    (tmp_path / "whole").mkdir()
    whole, _ = _run(tmp_path / "whole", documents, explode)
    monkeypatch.setattr(rows, "_TOGETHER", 300)
    monkeypatch.setattr(text_columns, "LARGEST_COLUMN", 2_000)
    (tmp_path / "parts").mkdir()
    parts, letters = _run(tmp_path / "parts", documents, explode)
    assert letters == []
    assert len(parts) > len(whole)

    def key(row: dict[str, object]) -> str:
        return str(row["notification_id"])

    assert sorted((r for b in parts for r in b.to_pylist()), key=key) == sorted(
        (r for b in whole for r in b.to_pylist()), key=key
    )
    for batch in parts:
        assert batch.num_rows == 1 or int(rows._sizes(batch.column("tuples")).sum()) <= 300


def test_a_row_that_is_too_large_alone_is_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The views that can't get it are named, and others get theirs. What is extracted has a bound of its own, so the
    views are made ready before the bound is lowered."""
    _run(tmp_path, ["<a/>"])
    monkeypatch.setattr(rows, "_TOGETHER", 300)
    monkeypatch.setattr(text_columns, "LARGEST_COLUMN", 1_000)
    found, letters = _run(tmp_path, [NESTED, "<a/>"])
    got = [(row["id"], tuple(row["views"])) for batch in found for row in batch.to_pylist()]
    assert sorted(got) == [(0, (0, 2)), (1, (0, 2))]
    assert [letter["reason"].split(" bytes")[0] for letter in letters] == [
        "document 0: views 1: too large for one row: 1,001"
    ]


def test_dead_letters_keep_bad_bytes(tmp_path: Path) -> None:
    """What isn't text is kept as base64; what is, as it is."""
    bad = [b"<a>\xff</a>", "\ufeff<a>".encode("utf-16-le"), b"<\xc3\xa9>", b"<a/>"]
    _, letters = _run(tmp_path, list(bad))
    assert [letter["encoding"] for letter in letters] == ["base64", "base64", "utf-8"]
    assert [base64.b64decode(letter["raw"]) for letter in letters[:2]] == bad[:2]
    assert letters[2]["raw"] == "<é>"


def test_strings_that_are_no_text_are_dead_letters(tmp_path: Path) -> None:
    """A column of strings may hold any bytes, on Spark: they end no task."""
    write_plan(direct_plan(TEXTS), tmp_path / PLAN)
    work = match._FrameWork(
        format="xml",
        levels=None,
        letters=str(tmp_path / "letters"),
        costs=None,
        lost=None,
        plan=str(tmp_path / PLAN),
        explode=False,
    )
    raw = pa.array([b"<a>\xff</a>", b"<a>5</a>"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), texts], names=["id", "text"])
    assert [row["id"] for found in work.run([batch]) for row in found.to_pylist()] == [2]
    (left,) = tmp_path.glob("letters/**/*.jsonl")
    assert json.loads(left.read_text())["encoding"] == "base64"


def test_a_document_that_cannot_be_worked_on_is_a_dead_letter_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a document does to what works on it, the others of the batch get through; none is told twice."""
    documents: list[bytes | str] = ["<a>x</a>", "<a>y</a>", "<a>poison</a>", "<a>z</a>", "oops"]
    honest = match.read_xml

    def read(texts: pa.Array) -> object:
        if any("poison" in text for text in texts.to_pylist()):
            raise OverflowError("a reader that can't")
        return honest(texts)

    monkeypatch.setattr(match, "read_xml", read)
    found, letters = _run(tmp_path, documents)
    told = sorted(n for batch in found for n in batch.column("id").to_pylist())
    assert told == [0, 1, 3]  # of one pattern each
    reasons = sorted(letter["reason"].split(":")[0:2][1].strip() for letter in letters)
    assert reasons == ["can't be worked on", "no xml document"]
