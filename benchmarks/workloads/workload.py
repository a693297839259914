"""What a workload is: subscriptions, events, and the join that a database would match them with.

The subscriptions are there twice: as filters, for Penstock, and as tables of bounds, for databases that join events
with rules. Both come from the same numbers; that they mean the same is tested, and checked in every run.

Texts are put together by Arrow, column by column: a million filters are a few seconds, and no Python string each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.language import Schema
from penstock.matching import FOREVER, Rows

Text = Any  # pa.StringArray | str: Arrow has no types


def _as_they_are(events: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([events])


@dataclass(frozen=True)
class Join:
    """What somebody does who has a database and no Penstock, written as well as SQL allows.

    `query` counts the matches of a table `events` with the `rules`, and is understood by DuckDB and by Spark (to whom
    alone its hints speak). `events` puts the events into the form that such a person would keep them in.
    """

    rules: Mapping[str, pa.Table]
    query: str
    events: Callable[[pa.RecordBatch], pa.Table] = _as_they_are


@dataclass(frozen=True)
class Workload:
    """Subscriptions and events of one kind. The same numbers of both are the same subscriptions and events, always."""

    name: str
    schema: Schema
    rows: Rows
    events: pa.RecordBatch
    join: Callable[[], Join]  # made when it is wanted: at a million rules it takes seconds


def rows_of(filters: pa.StringArray) -> Rows:
    """Subscriptions with these filters: ids from 0, a subscriber each, no end to the lease."""
    ids = np.arange(len(filters))
    return Rows(
        sequence=0,
        ids=ids,
        subscribers=text("user", integer(ids)),
        filters=filters,
        expires=np.full(len(filters), FOREVER),
    )


# --- filters ------------------------------------------------------------------------------------


def text(*parts: Text) -> pa.StringArray:
    """Columns of texts and constant texts, side by side; NULL where one of them is.

    >>> text("a", pa.array(["1", None]), " = 5").to_pylist()
    ['a1 = 5', None]
    """
    return pc.binary_join_element_wise(*parts, "")


def conjunction(*terms: pa.StringArray) -> pa.StringArray:
    """The terms of each filter joined by AND; a term that is NULL is left out.

    >>> conjunction(pa.array(["x = 1", None]), pa.array(["y = 1", "y = 2"])).to_pylist()
    ['x = 1 AND y = 1', 'y = 2']
    """
    return pc.binary_join_element_wise(*terms, " AND ", null_handling="skip")


def integer(values: npt.NDArray[Any]) -> pa.StringArray:
    """Integers as they are written in a filter."""
    return pc.cast(pa.array(values), pa.string())


def hundredths(values: npt.NDArray[Any]) -> pa.StringArray:
    """Numbers with two decimals, given in hundredths, so that text and double are the same number.

    >>> hundredths(np.array([5, 1234])).to_pylist()
    ['0.05', '12.34']
    """
    return text(integer(values // 100), ".", pc.utf8_lpad(integer(values % 100), 2, "0"))


def quoted(names: pa.StringArray) -> pa.StringArray:
    """Texts as literals."""
    return text("'", names, "'")


def names(prefix: str, count: int) -> pa.StringArray:
    """Names that sort as their numbers do.

    >>> names("a", 20)[7].as_py()
    'a07'
    """
    digits = len(str(count - 1))
    return pa.array([f"{prefix}{number:0{digits}d}" for number in range(count)], pa.string())


# --- joins --------------------------------------------------------------------------------------


def count_matches(joins: Mapping[str, str]) -> str:
    """A query that counts the matches of events `e` with each table of rules `r`, each on its own condition.

    Several tables are several kinds of rules. One condition over all kinds (a CASE, or "is NULL or equal") would leave
    a database nothing but to compare every event with every rule; a kind with an equality is a hash join, one with a
    range a range join.
    """
    counts = [
        f"SELECT /*+ BROADCAST(r) */ count(*) AS n FROM events e JOIN {table} r ON {condition}"
        for table, condition in joins.items()
    ]
    return f"SELECT CAST(sum(n) AS BIGINT) AS n FROM ({' UNION ALL '.join(counts)}) counts"


def join_by_first(
    attributes: Sequence[str],
    tested: npt.NDArray[np.bool_],
    bounds: Mapping[str, npt.NDArray[np.int64]],
    condition: str,
) -> Join:
    """A hash join for rules that test some of many attributes, each its own ones.

    `tested` and the `bounds` have a row per attribute and a column per rule; in `condition`, `{e}` is a value of the
    event and `{r}` what the rule has for it, before the suffix of a bound. The first attribute that a rule tests is its
    key, under which an event is looked up with each of its attributes; for the attributes after it, NULL is "any".

    DuckDB takes between 1 and 2.5 times as long with NULL for "any" alone. With a table of rules for each first
    attribute it is up to 1.8 times as fast for `ranges`, by a range join; but 20 joins instead of one cost it the same
    elsewhere, and Spark, which has no range join, many seconds before the first event.
    """
    first = tested.argmax(axis=0)
    rest = tested.copy()
    rest[first, np.arange(len(first))] = False
    columns = {"attribute": pa.array(first)}
    for suffix, bound in bounds.items():
        columns[f"first{suffix}"] = pa.array(bound[first, np.arange(len(first))])
    terms = ["e.attribute = r.attribute", condition.format(e="e.value", r="r.first")]
    for number, name in enumerate(attributes):
        if not rest[number].any():
            continue
        for suffix, bound in bounds.items():
            columns[name + suffix] = pa.array(bound[number], mask=~rest[number])
        any_ = f"r.{name}{next(iter(bounds))} IS NULL"
        terms.append(f"({any_} OR {condition.format(e=f'e.{name}', r=f'r.{name}')})")
    keys = np.unique(first).tolist()
    return Join(
        {"rules": pa.table(columns)},
        count_matches({"rules": " AND ".join(terms)}),
        lambda events: _by_attribute(events, keys),
    )


def _by_attribute(events: pa.RecordBatch, keys: Sequence[int]) -> pa.Table:
    """Each event once for each of these attributes, with its number and its value there."""
    whole = pa.Table.from_batches([events])
    return pa.concat_tables(
        whole.append_column("attribute", pa.array(np.full(events.num_rows, key))).append_column(
            "value", whole.column(key)
        )
        for key in keys
    ).combine_chunks()


def spread(
    attribute: npt.NDArray[np.int64], attributes: int, *values: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], list[npt.NDArray[np.int64]]]:
    """What stands at [rule, test] put at [attribute, rule]: which attributes are tested, and the values there.

    >>> tested, (value,) = spread(np.array([[0, 2]]), 3, np.array([[7, 8]]))
    >>> tested[:, 0].tolist(), value[:, 0].tolist()
    ([True, False, True], [7, 0, 8])
    """
    rule = np.arange(len(attribute))[:, None]
    tested = np.zeros((attributes, len(attribute)), np.bool_)
    tested[attribute, rule] = True
    spread_values = []
    for value in values:
        wide = np.zeros(tested.shape, np.int64)
        wide[attribute, rule] = value
        spread_values.append(wide)
    return tested, spread_values
