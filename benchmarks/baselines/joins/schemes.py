"""Select-joins by any scheme of Table 1. All of them give every subscriber the same result:

    enum-j        each subscriber its rows of the join                   sent to each apart
    rel-sel       each tuple to all who select it, joining or not        once, with filters
    ref-j, -j+    the rows of the join without selections; + if anybody wants them
    enum-sj       each subscriber the tuples that it lacks               sent to each apart
    ref-sj-…      the same, described by a skyline: sub, tup, clu, clu+  once, with filters

The last of these is what Penstock does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from benchmarks.baselines.joins.envelopes import EnvelopeForm, EnvelopeSemijoins
from benchmarks.baselines.joins.estimated_choices import Choices
from benchmarks.baselines.joins.flavours import CLU, SUB, TUP, FlavouredSemijoins
from benchmarks.baselines.joins.results import ResultScheme
from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError
from penstock.joins.axes import ANYTHING
from penstock.joins.catalog import Catalog
from penstock.joins.decompose import Decomposition
from penstock.joins.processor import Processor
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.semijoins import Form, Semijoins
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.joins.table_state import TableState

OURS = "ref-sj-clu+"
_FLAVOURS = {"ref-sj-sub": SUB, "ref-sj-tup": TUP, "ref-sj-clu": CLU}
_RESULTS = ("enum-j", "ref-j", "ref-j+")
SCHEMES = (*_RESULTS, *_FLAVOURS, OURS, "enum-sj", "rel-sel")


class Relaxation(Decomposition):
    """Rel-Sel: nothing is filtered by joins."""

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        return tuple((side.table, None) for side in join.sides)


@dataclass(frozen=True)
class _Chosen(Decomposition):
    """A decomposition whose semijoins are grouped by other attributes."""

    other: Decomposition = field(default_factory=Decomposition)
    choices: Choices = field(default_factory=Choices)

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        return self.other.of(join)

    def attribute(self, side: Side) -> str | None:
        return self.choices.attribute(side)


class ComparedScheme(SemijoinScheme):
    """Semijoins whose messages are described in some way, by as many attributes as are chosen."""

    def __init__(
        self,
        tables: dict[str, TableState],
        decomposition: Decomposition,
        choices: Choices | None = None,
        flavour: int | None = None,
    ) -> None:
        self._choices = choices or Choices()
        super().__init__(tables, _Chosen(other=decomposition, choices=self._choices))
        self._flavour = flavour

    def _form(self, base: str, edge: JoinEdge | None, join: SelectJoin) -> Form:
        form = super()._form(base, edge, join)
        if form.filtering is None:
            return form
        (side,) = [side for side in join.sides if side.table == form.filtering]
        several = self._choices.filter_attributes(side)
        if len(several) < 2:
            return form
        return EnvelopeForm(base, edge, form.base_attribute, None, several)

    def _grouping_ranges(
        self, sides: dict[str, list[Side]]
    ) -> dict[tuple[str, str | None], Int64s]:
        ranges = super()._grouping_ranges(sides)
        for table, mine in sides.items():
            for name, _ in mine[0].ranges:
                ranges[table, name] = self._ranges(mine, name)
        return ranges

    def _ranges(self, sides: list[Side], attribute: str | None) -> Int64s:
        if attribute not in dict(sides[0].ranges):  # an attribute that others have ranges for
            if attribute is not None:
                self._tables[sides[0].table].axis(attribute)
            return np.array([ANYTHING], np.int64)
        return super()._ranges(sides, attribute)

    def _columns(self, form: Form, ranges: dict[tuple[str, str | None], Int64s]) -> list[Int64s]:
        if not isinstance(form, EnvelopeForm):
            return super()._columns(form, ranges)
        assert form.filtering is not None
        several = [ranges[form.filtering, name] for name in form.filter_attributes]
        return [ranges[form.base, form.base_attribute], *several]

    def _new_group(self, form: Form, base: TableState, filtering: TableState | None) -> Semijoins:
        if isinstance(form, EnvelopeForm):
            assert filtering is not None
            return cast(Semijoins, EnvelopeSemijoins(form, base, filtering))
        group = super()._new_group(form, base, filtering)
        if self._flavour is None:
            return group
        return FlavouredSemijoins(form, base, filtering, flavour=self._flavour)


class SchemeProcessor(Processor):
    """A processor with a scheme of this name. `is_unicast`: it sends to each subscriber apart."""

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: Mapping[int, SelectJoin] | Iterable[tuple[int, SelectJoin]] = (),
        scheme: str = OURS,
        decomposition: Decomposition | None = None,
        choices: Choices | None = None,
    ) -> None:
        if scheme not in SCHEMES:
            raise PenstockError(f"there is no scheme {scheme!r}: there are {', '.join(SCHEMES)}")
        self.scheme_name = scheme
        self.is_unicast = scheme.startswith("enum")
        self.choices = choices or Choices()
        super().__init__(catalog, subscriptions, decomposition)

    def _new_scheme(self) -> SemijoinScheme:
        if self.scheme_name in _RESULTS:
            results = ResultScheme(self.tables, wanted_only=self.scheme_name == "ref-j+")
            return cast(SemijoinScheme, results)
        decomposition = Relaxation() if self.scheme_name == "rel-sel" else self.decomposition
        flavour = _FLAVOURS.get(self.scheme_name)
        return ComparedScheme(self.tables, decomposition, self.choices, flavour)
