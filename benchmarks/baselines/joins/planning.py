"""A processor that decomposes and groups select-joins anew, by what semijoins cost as things are now (section 4)."""

from collections.abc import Iterable, Mapping

from benchmarks.baselines.joins.costs import Rates, parametric, simulated, total
from benchmarks.baselines.joins.estimated_choices import EstimatedChoices
from benchmarks.baselines.joins.schemes import SchemeProcessor
from benchmarks.baselines.joins.subscribers import sent_messages
from penstock.joins.catalog import Catalog
from penstock.joins.changes import ChangeBatch
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import Message, TupleAdded, TupleKey, TupleRemoved
from penstock.joins.newcomers import table_contents
from penstock.joins.notifications import Part
from penstock.joins.subscription import JoinEdge, SelectJoin


class PlanningProcessor(SchemeProcessor):
    """Ref-SJ-Clu+ that knows which tables change how often."""

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: Mapping[int, SelectJoin] | Iterable[tuple[int, SelectJoin]] = (),
    ) -> None:
        self._rates = Rates()
        self.estimated = EstimatedChoices()
        super().__init__(catalog, subscriptions, choices=self.estimated)

    def _apply(self, batch: ChangeBatch, first: int) -> list[Part]:
        self._rates.saw(batch.table, len(batch))
        return super()._apply(batch, first)

    def costs(self, simulate: bool = False) -> dict[tuple[str, JoinEdge], float]:
        """What a semijoin costs for each base table and edge, as things are now."""
        if simulate:
            return simulated(self.tables, list(self._joins.values()), self._rates, self.choices)
        return parametric(self.tables, self.catalog.edges, self._rates)

    def drift(self, simulate: bool = False) -> float:
        """How many times the cost of the best decomposition this one has now."""
        costs = self.costs(simulate)
        joins = list(self._joins.values())
        best = total(joins, Decomposition(costs), costs)
        return total(joins, self.decomposition, costs) / best if best else 1.0

    def replan(self, simulate: bool = False) -> dict[int, list[Message]]:
        """Decompose select-joins anew, and choose by which attributes they are grouped, by what they cost now.

        What subscribers have to forget or to hold instead, by id.
        """
        before = self.holdings()
        self.decomposition = Decomposition(self.costs(simulate))
        self.choices = self.estimated = self.estimated.estimate(
            self.tables, list(self._joins.values())
        )
        self._add_anew()
        self._number_anew()
        moved = {}
        for sid, now in self.holdings().items():
            held = before[sid]
            changes: list[Message] = [TupleRemoved(*what) for what in held if what not in now]
            changes += [message for what, message in now.items() if what not in held]
            if changes:
                moved[sid] = changes
        return moved

    def holdings(self) -> dict[int, dict[tuple[str, TupleKey], Message]]:
        """What each subscriber holds: what it would be sent if all tuples came before its eyes."""
        fresh = SchemeProcessor(
            self.catalog, self._joins, decomposition=self.decomposition, choices=self.choices
        )
        found: dict[int, dict[tuple[str, TupleKey], Message]] = {sid: {} for sid in self._joins}
        for sid, messages in sent_messages(
            fresh.process(table_contents(self.tables.values()))
        ).items():
            for message in messages:
                assert isinstance(message, TupleAdded)
                key = tuple(message.row[k] for k in self.catalog.tables[message.table].key)
                found[sid][message.table, key] = message
        return found
