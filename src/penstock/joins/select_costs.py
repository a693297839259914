"""The possible cost of a select-join: the tests of its residuals, which are filters of changes (`matching.costs`).

The tests that are really made are counted while it runs (`Processor.take_costs`).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.errors import FilterError
from penstock.joins.catalog import Catalog
from penstock.joins.selects import Select, Selects, read_select, warnings_of_join
from penstock.matching import Examined, examine, examine_many
from penstock.matching.check import warnings_of_cost


def _no_catalog(text: str) -> FilterError:
    """The error if a select is given without a catalogue."""
    return FilterError(
        text,
        "a select needs a catalogue of tables, and the registry has none",
        0,
        6,
        hint="Subscriptions(catalog=…) or Subscriptions.open(…, catalog=…); a filter has no SELECT",
    )


def examine_select(text: str, catalog: Catalog | None) -> Examined:
    """The cost of one select, with warnings. FilterError if the text isn't a select."""
    if catalog is None:
        raise _no_catalog(text)
    select = read_select(text, catalog)
    cost = sum(
        examine(residual, catalog.tables[table].schema).cost
        for table, residuals in _residuals([select]).items()
        for _, residual in residuals
    )
    return Examined(warnings_of_join(select.join) + warnings_of_cost(cost), cost)


def examine_selects(
    texts: Sequence[str], catalog: Catalog | None
) -> tuple[list[tuple[int, FilterError]], Int64s]:
    """Check many selects: the errors by position, and the cost of each.

    >>> [str(error.reason) for _, error in examine_selects(["SELECT * FROM A"], None)[0]]
    ['a select needs a catalogue of tables, and the registry has none']
    """
    if catalog is None:
        errors = [(row, _no_catalog(text)) for row, text in enumerate(texts)]
        return errors, np.zeros(len(texts), np.int64)
    found, errors = Selects.under(catalog).many(texts)
    costs = np.zeros(len(texts), np.int64)
    for table, residuals in _residuals(found).items():
        rows, conditions = zip(*residuals, strict=True)
        _, mine = examine_many(conditions, catalog.tables[table].schema)
        np.add.at(costs, list(rows), mine)
    return errors, costs


def _residuals(selects: Iterable[Select | None]) -> dict[str, list[tuple[int, str]]]:
    """The residuals of many selects by table, each with the select's place.

    They are filters of their tables' changes, and their cost is that of the select. A range of the same table doesn't
    save their tests: all residuals of a table are matched together.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for row, select in enumerate(selects):
        if select is not None and not select.join.never_matches:
            for side in select.join.sides:
                if side.residual is not None:
                    found.setdefault(side.table, []).append((row, side.residual))
    return found
