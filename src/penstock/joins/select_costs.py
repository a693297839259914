"""What a select-join can cost: the tests of its residuals, which are filters of changes (`matching.costs`).

What it does take is counted while it runs (`Processor.take_costs`).
"""

from collections.abc import Sequence

from penstock.base.errors import FilterError
from penstock.joins.catalog import Catalog
from penstock.joins.selects import Select, Selects, read_select, warnings_of_join
from penstock.matching import Examined, examine
from penstock.matching.check import warnings_of_cost


def _no_catalog(text: str) -> FilterError:
    """Why a select is refused where there is no catalogue."""
    return FilterError(
        text,
        "a select needs a catalogue of tables, and the registry has none",
        0,
        6,
        hint="Subscriptions(catalog=…) or Subscriptions.open(…, catalog=…); a filter has no SELECT",
    )


def examine_select(text: str, catalog: Catalog | None) -> Examined:
    """What one select costs, and warnings of that. FilterError if it isn't one."""
    if catalog is None:
        raise _no_catalog(text)
    select = read_select(text, catalog)
    cost = _cost(select, catalog)
    return Examined(warnings_of_join(select.join) + warnings_of_cost(cost), cost)


def examine_selects(
    texts: Sequence[str], catalog: Catalog | None
) -> tuple[list[tuple[int, FilterError]], list[int]]:
    """Check many selects: the errors by position, and the cost of each.

    >>> [str(error.reason) for _, error in examine_selects(["SELECT * FROM A"], None)[0]]
    ['a select needs a catalogue of tables, and the registry has none']
    """
    if catalog is None:
        return [(row, _no_catalog(text)) for row, text in enumerate(texts)], [0] * len(texts)
    found, errors = Selects.under(catalog).many(texts)
    return errors, [0 if select is None else _cost(select, catalog) for select in found]


def _cost(select: Select, catalog: Catalog) -> int:
    """The cost of a select: that of its residuals, which are filters of their tables' changes.

    A range of the same table doesn't spare their tests: all residuals of a table are matched together.
    """
    return sum(
        examine(side.residual, catalog.tables[side.table].schema).cost
        for side in select.join.sides
        if side.residual is not None and not select.join.never_matches
    )
