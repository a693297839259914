"""`docs/LANGUAGE.md` on select-joins: every select in it is read, viewed, and put to DuckDB."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.joins.select_worlds import bag, result, table_rows
from tests.pages import ROOT, Block, Example, blocks, examples, run_python

from penstock import Catalog, FilterError, JoinView
from penstock.joins.messages import TupleAdded
from penstock.joins.selects import read_select

PAGE = ROOT / "docs" / "LANGUAGE.md"


def _world() -> dict[str, Any]:
    """The catalogue and the tables that the page defines."""
    namespace: dict[str, Any] = {"__name__": PAGE.stem, "date": date}
    for block in blocks(PAGE):
        if block.language == "python" and re.search(r"^catalog = ", block.text, re.MULTILINE):
            run_python(block, namespace)
    return namespace


WORLD = _world()
CATALOG: Catalog = WORLD["catalog"]
LINES = [e for b in blocks(PAGE) if b.language == "selects" for e in examples(b)]
ERRORS = [b for b in blocks(PAGE) if b.language == "select-error"]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    for name, table in CATALOG.declared:
        schema = table.schema.to_arrow()
        rows = [{column: row[column] for column in schema.names} for row in WORLD["tables"][name]]
        connection.register("given", pa.Table.from_pylist(rows, schema))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    yield connection
    connection.close()


def test_the_page_has_selects() -> None:
    """The runner finds them: a change of the page's form can't silence it."""
    assert len(LINES) > 20
    assert ERRORS
    assert all(line.outcome == "ERROR" or line.outcome.isdigit() for line in LINES)


@pytest.mark.parametrize(
    "line", [e for e in LINES if e.outcome != "ERROR"], ids=lambda line: line.filter[:60]
)
def test_selects_have_their_rows(line: Example, database: duckdb.DuckDBPyConnection) -> None:
    """As many as the page says, and just DuckDB's, in its columns."""
    names, rows = result(database, line.filter)
    assert len(rows) == int(line.outcome)
    view = JoinView(line.filter, CATALOG)
    view.apply(
        TupleAdded(part, values)
        for table, held in WORLD["tables"].items()
        for row in held
        for part, values in CATALOG.parts(table, row)
        if part in view.select.join.tables
    )
    assert view.columns == names
    assert bag(table_rows(view.rows())) == bag(rows)


@pytest.mark.parametrize(
    "line", [e for e in LINES if e.outcome == "ERROR"], ids=lambda line: line.filter[:60]
)
def test_errors_are_refused_for_the_reason_given(line: Example) -> None:
    """The remark behind them is part of the reason."""
    with pytest.raises(FilterError) as caught:
        read_select(line.filter, CATALOG)
    assert line.reason in caught.value.reason


@pytest.mark.parametrize("block", ERRORS, ids=lambda block: block.where)
def test_error_messages_are_shown_as_they_are(block: Block) -> None:
    """`select-error` blocks have the whole message."""
    text, _, message = block.text.partition("\n---\n")
    with pytest.raises(FilterError) as caught:
        read_select(text, CATALOG)
    assert str(caught.value) == message
