"""Chains: the conjunctions of a plan, as far as operators decide them.

    invocation i   an operator with its arguments, which is what costs time. It decides the predicates
                   invocation_start[i] .. invocation_start[i + 1], all at once
    predicate p    true or false of an event once its invocation has been answered: `crowd(image) > 50`. An answer that
                   is unknown, or an operator that failed, makes it false: it matters only whether it is true
    chain c        the predicates predicate[start[c]:start[c + 1]] of one conjunction, each once, in any order: it is
                   true if all of them are. A subscription of operators §3
    rivals of c    rival[rival_start[c]:rival_start[c + 1]]: chains that are needless once c is true, because every
                   subscription that has one of them has c, too, as another conjunction

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
    """How often each predicate is expected to be true, and what each invocation is expected to cost, in seconds."""

    true: Float64s
    cost: Float64s
