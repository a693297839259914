"""What the conjunctions of a plan ask of operators.

    invocation i   an operator with its arguments: what costs. It decides the predicates
                   invocation_start[i] .. invocation_start[i + 1], all at once
    predicate p    true or false of an event once its invocation has been answered: `crowd(image) > 50`. An answer that
                   is unknown, or an operator that failed, makes it false: it matters only whether it is true
    chain c        the predicates predicate[start[c]:start[c + 1]] of one conjunction, each once, in any order: it is
                   true if all of them are. A subscription of operators §3
    rivals of c    rival[rival_start[c]:rival_start[c + 1]]: chains that nobody needs once c is true, because whoever
                   has one of them has c, too (other conjunctions of the same subscriptions)

A chain is *open* for an event as long as none of its predicates is known to be false, not all of them are known to be
true, and no chain that it is a rival of is true.
"""

from dataclasses import dataclass

from penstock.base.arrays import Float64s, Int32s


@dataclass(frozen=True, slots=True)
class Chains:
    """See the module."""

    start: Int32s
    predicate: Int32s
    invocation_start: Int32s
    rival_start: Int32s
    rival: Int32s

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def predicates(self) -> int:
        return int(self.invocation_start[-1])

    @property
    def invocations(self) -> int:
        return len(self.invocation_start) - 1


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is expected: how often each predicate is true, and what each invocation costs, in seconds."""

    true: Float64s
    cost: Float64s
