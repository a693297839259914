"""The interface of strategies: they say which invocations to evaluate next, until every chain is decided."""

from typing import ClassVar, Protocol

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.operators.chains import Chains, Estimates


class Rounds(Protocol):
    """The evaluation of one block of events: `ask`, evaluate, `tell`, and again, until nothing is asked."""

    def ask(self) -> tuple[Int32s, Int32s]:
        """Pairs of events and invocations to evaluate now, ascending by invocation and then event; no pairs if all is
        decided. A pair is never asked for twice."""
        ...

    def tell(self, truth: Bools) -> None:
        """Take the answers to the last `ask`: for every pair, in order, the truth of its invocation's predicates."""
        ...

    def true_chains(self) -> tuple[Int64s, Int32s]:
        """The chains that are true, once all is decided: those of event e stand at start[e] .. start[e + 1]. A chain
        whose rival was true may be missing."""
        ...


class Strategy(Protocol):
    """An order of evaluation for the chains of one plan."""

    name: ClassVar[str]

    def __init__(self, chains: Chains, estimates: Estimates) -> None: ...

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        """Evaluate some events. Event e needs chains[start[e]:start[e + 1]], ascending.

        Each event takes up to `bytes_per_event` of memory, so many events are better evaluated a few at a time.
        """
        ...
