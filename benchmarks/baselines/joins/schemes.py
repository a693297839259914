"""Select-joins by any scheme of Table 1. All of them give every subscriber the same result:

    enum-j        each subscriber its rows of the join                   sent to each apart
    rel-sel       each tuple to all who select it, joining or not        once, with filters
    ref-j, -j+    the rows of the join without selections; + if anybody wants them
    enum-sj       each subscriber the tuples that it lacks               sent to each apart
    ref-sj-…      the same, described by a skyline: sub, tup, clu, clu+  once, with filters

The last of these is what Penstock does.
"""

from collections.abc import Iterable, Mapping
from typing import cast

from benchmarks.baselines.joins.envelopes import EnvelopeSemijoins
from benchmarks.baselines.joins.flavours import CLU, SUB, TUP, FlavouredSemijoins
from benchmarks.baselines.joins.results import ResultScheme
from penstock.base.errors import PenstockError
from penstock.joins.catalog import Catalog
from penstock.joins.choices import Choices
from penstock.joins.decompose import Decomposition
from penstock.joins.processor import Processor, Scheme
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.semijoins import Form, Semijoins
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.joins.table_state import TableState

OURS = "ref-sj-clu+"
_FLAVOURS = {"ref-sj-sub": SUB, "ref-sj-tup": TUP, "ref-sj-clu": CLU}
_RESULTS = ("enum-j", "ref-j", "ref-j+")
SCHEMES = (*_RESULTS, *_FLAVOURS, OURS, "enum-sj", "rel-sel")


class Relaxation(Decomposition):
    """Rel-Sel: nothing is filtered by joins."""

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        return tuple((side.table, None) for side in join.sides)


class ComparedScheme(SemijoinScheme):
    """Semijoins whose messages are described in some way, by as many attributes as are chosen."""

    def __init__(
        self,
        tables: dict[str, TableState],
        decomposition: Decomposition,
        choices: Choices | None = None,
        flavour: int | None = None,
    ) -> None:
        super().__init__(tables, decomposition, choices)
        self._flavour = flavour

    def _new_group(self, form: Form, base: TableState, filtering: TableState | None) -> Semijoins:
        if len(form.filter_attributes) > 1:
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

    def _new_scheme(self) -> Scheme:
        if self.scheme_name in _RESULTS:
            return ResultScheme(self.tables, wanted_only=self.scheme_name == "ref-j+")
        decomposition = Relaxation() if self.scheme_name == "rel-sel" else self.decomposition
        flavour = _FLAVOURS.get(self.scheme_name)
        return ComparedScheme(self.tables, decomposition, self.choices, flavour)
