"""`docs/LANGUAGE.md` is the specification: every example in it is matched, and asked of DuckDB."""

import re
from typing import Any

import pyarrow as pa
import pytest
from tests.differential.oracle import FALSE, TRUE, UNKNOWN, Oracle
from tests.pages import ROOT, Block, Example, blocks, examples, run_python

import penstock
from penstock import FilterError, Operators, Schema
from penstock.matching import ENGINES, FOREVER, Matcher, Rows, check, compile_plan
from penstock.matching.events import event_batch

PAGE = ROOT / "docs" / "LANGUAGE.md"
OUTCOMES = {"MATCH": TRUE, "NO": FALSE, "UNKNOWN": UNKNOWN}


def _cases() -> list[tuple[Block, Any, Any]]:
    """Every `filters` and `error` block with the schema, with operators, and the event that the page has by then."""
    namespace: dict[str, Any] = {"__name__": PAGE.stem, "penstock": penstock}
    found = []
    for block in blocks(PAGE):
        if block.language == "python" and re.search(r"^event = ", block.text, re.MULTILINE):
            run_python(block, namespace)
        elif block.language in ("filters", "error"):
            operators = Operators(*namespace.get("operators", ()))
            found.append((block, (namespace.get("schema"), operators), namespace.get("event")))
    return found


CASES = _cases()
FILTERS = [pytest.param(*c, id=c[0].where) for c in CASES if c[0].language == "filters"]
ERRORS = [pytest.param(*c, id=c[0].where) for c in CASES if c[0].language == "error"]


def _typed(known: Any) -> Schema:
    schema, operators = known
    return Schema.of(schema).with_operators(operators.signatures)


def _truth(
    known: Any, event: dict[str, Any], filters: list[str], engine: str, variables: bool
) -> list[int]:
    """Penstock's answer with three values: a filter that is unknown matches neither way round.

    One with variables has no negation: what doesn't match is FALSE.
    """
    both = [text for filter_ in filters for text in (filter_, f"NOT ({filter_}\n)")]
    rows = [(i, "reader", text, FOREVER) for i, text in enumerate(both)]
    plan, errors = compile_plan(Rows.of(rows[::2] if variables else rows), _typed(known))
    assert not errors, "\n".join(str(error) for _, error in errors)
    matched = set(Matcher(plan, engine=engine, operators=known[1]).match(event))
    assert not any({2 * i, 2 * i + 1} <= matched for i in range(len(filters)))
    if variables:
        matched |= {2 * i + 1 for i in range(len(filters))} - {i + 1 for i in matched}
    return [
        TRUE if 2 * i in matched else FALSE if 2 * i + 1 in matched else UNKNOWN
        for i in range(len(filters))
    ]


def _judged(block: Block) -> list[Example]:
    return [e for e in examples(block) if e.outcome in OUTCOMES]


def test_the_page_has_examples() -> None:
    """The runner finds them: a change of the page's form can't silence it."""
    outcomes = [e.outcome for c in CASES if c[0].language == "filters" for e in examples(c[0])]
    assert len(outcomes) > 150
    assert set(outcomes) == {*OUTCOMES, "ERROR"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("block", "schema", "event"), FILTERS)
def test_examples_have_their_outcome(block: Block, schema: Any, event: Any, engine: str) -> None:
    """MATCH, NO and UNKNOWN lines, with every engine."""
    lines = _judged(block)
    variables = "variables" in block.tags
    got = _truth(schema, event, [e.filter for e in lines], engine, variables)
    wrong = [e for e, truth in zip(lines, got, strict=True) if truth != OUTCOMES[e.outcome]]
    assert not wrong


@pytest.mark.parametrize(("block", "schema", "event"), FILTERS)
def test_duckdb_gives_examples_the_same_outcome(block: Block, schema: Any, event: Any) -> None:
    """MATCH, NO and UNKNOWN lines, asked of the oracle."""
    if "not-in-duckdb" in block.tags:
        pytest.skip("the page says that DuckDB differs here")
    typed = _typed(schema)
    batch = event_batch(event, typed, [name for name, _ in typed.root.fields])
    lines = _judged(block)
    truth = Oracle(pa.Table.from_batches([batch])).truth([e.filter for e in lines])
    assert not truth.refused
    wrong = [e for i, e in enumerate(lines) if truth.values[i, 0] != OUTCOMES[e.outcome]]
    assert not wrong


@pytest.mark.parametrize(("block", "schema", "event"), FILTERS)
def test_errors_are_refused_for_the_reason_given(block: Block, schema: Any, event: Any) -> None:
    """ERROR lines, and the remark behind them is part of the reason."""
    for example in examples(block):
        if example.outcome != "ERROR":
            continue
        with pytest.raises(FilterError) as caught:
            check(example.filter, _typed(schema))
        assert example.reason in caught.value.reason, f"{example.where}\n{caught.value}"


@pytest.mark.parametrize(("block", "schema", "event"), ERRORS)
def test_error_messages_are_shown_as_they_are(block: Block, schema: Any, event: Any) -> None:
    """`error` blocks have the whole message."""
    filter_, _, message = block.text.partition("\n---\n")
    with pytest.raises(FilterError) as caught:
        check(filter_, _typed(schema))
    assert str(caught.value) == message
