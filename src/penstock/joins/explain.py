"""Explains why tuples are in the result of a select-join, or aren't.

The tuples, one of each table, become one event with a struct for each table, and the select becomes a conjunction of
filters: its conditions on one table each, and the equalities of its edges. So `matching.explain` says which of these
hold, in the same words as it does for a filter, and the answer comes from the code that matches.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.base.errors import SchemaError
from penstock.joins.catalog import PAYLOAD, Catalog
from penstock.joins.select_shapes import is_plain, read_conditions
from penstock.joins.selects import read_select
from penstock.language import Schema
from penstock.language.types import Struct
from penstock.matching import Explanation
from penstock.matching.explain import explain
from penstock.matching.subscription_rows import EVER, FOREVER


def explain_select(
    text: str,
    catalog: Catalog,
    tuples: Mapping[str, Mapping[str, Any]],
    sid: int = 0,
    lease_end: int = FOREVER,
    now: int = EVER,
) -> Explanation:
    """Explain one select on a tuple of each of its tables. FilterError if the text isn't a select.

    >>> from penstock.joins.catalog import Table
    >>> tables = {"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
    ...           "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id")}
    >>> catalog = Catalog.of(tables, [("Stocks", "Reviews", "Symbol")])
    >>> text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating <> 5"
    >>> print(explain_select(text, catalog, {"Stocks": {"Symbol": "GOOG", "PER": 51.7},
    ...                                      "Reviews": {"Id": 1, "Symbol": "ACME", "Rating": 7}}, sid=3))
    subscription 3 does not match
      SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating <> 5
      ✗ Stocks.Symbol = Reviews.Symbol  fails: Stocks.Symbol is 'GOOG', Reviews.Symbol is 'ACME'
      ✓ Stocks.PER > 45  holds: Stocks.PER is 51.7
      ✓ Reviews.Rating <> 5  holds: Reviews.Rating is 7
    """
    join = read_select(text, catalog).join
    names = [name for name in join.tables if not name.endswith(PAYLOAD)]
    for name in names:
        if not isinstance(tuples.get(name), Mapping):
            raise SchemaError(
                f"no tuple of {name!r}: give one of each table, by name: {', '.join(names)}"
            )
    declared = dict(catalog.declared)
    schema = Schema(Struct(tuple((name, declared[name].schema.root) for name in names)))
    edges = [edge for edge in join.edges if not edge.right.endswith(PAYLOAD)]
    equalities = [
        f"{_path(edge.left, a)} = {_path(edge.right, b)}"
        for edge in edges
        for a, b in edge.attributes
    ]
    conditions = [*dict.fromkeys(equalities), *read_conditions(text, catalog)] or ["TRUE"]
    found = [explain(sid, one, schema, tuples, lease_end, now) for one in conditions]
    truths = [one.truth for one in found]
    return replace(
        found[0],
        filter=text,
        truth=False if False in truths else None if None in truths else True,
        verdicts=tuple(verdict for one in found for verdict in one.verdicts),
        lacking=sum(one.lacking for one in found),
    )


def _path(*steps: str) -> str:
    quoted = (step if is_plain(step) else '"' + step.replace('"', '""') + '"' for step in steps)
    return ".".join(quoted)
