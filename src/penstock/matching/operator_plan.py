"""The operators' share of a plan.

A conjunction that calls operators is cut in two. Its ordinary predicates go to the matching engine, like those of all
other conjunctions. But they don't lead an event to a subscription: they lead to a *chain*, the other half of the
conjunction, which remains to be decided for this event. `fan_subscription` of the plan has chain c as len(ids) + c.

    attribute a    a call, with its values cut into cells like those of any attribute, or a joint of calls
                   (`language.calls`)
    predicate p    cells predicate_low[p] .. predicate_high[p] of a call, predicate_attribute[p]; if that is negative,
                   those of the set ~predicate_attribute[p]
    chain c        see `chains`; once all its predicates are true, the joints joint[joint_start[c]:joint_start[c + 1]]
                   must hold, too
    fan-out        the subscriptions of chain c are fan_subscription[fan_start[c]:fan_start[c + 1]]
    mixed c        whether one of them has a conjunction without operators, too

Distinct calls of one operator with the same arguments are one invocation, whatever their answers are compared with. A
joint whose calls are all one invocation is decided by the answer of that invocation: it is a predicate like any other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Int32s, Int64s, offsets
from penstock.language.calls import (
    Asked,
    Call,
    Invocation,
    decode_asked,
    encode_asked,
    event_paths,
    only_invocation,
)
from penstock.language.schema import Attribute
from penstock.language.signatures import Signatures
from penstock.language.types import from_json, to_json
from penstock.matching.domains import Cuts, Domain
from penstock.matching.invariants import (
    check_alike,
    check_numbers,
    check_starts,
    check_within,
    require,
)
from penstock.matching.sharing import Fan, Predicates
from penstock.operators.chains import Chains

# Rivals of one chain that are kept. One that is left out costs a needless call now and then, never a wrong match.
_MOST_RIVALS = 64
_PREFIX = "operators."


@dataclass(frozen=True)
class OperatorPlan(Predicates):
    """See the module. Arrays may be mapped from files: nobody writes to them."""

    signatures: Signatures
    attributes: tuple[Attribute, ...]
    domains: tuple[Domain, ...]  # of each attribute
    cuts: Cuts
    chain_start: Int32s
    chain_predicate: Int32s
    rival_start: Int32s
    rival: Int32s
    joint_start: Int32s
    joint: Int32s
    fan_start: Int32s
    fan_subscription: Int32s
    mixed: Bools

    def __len__(self) -> int:
        return len(self.chain_start) - 1

    @cached_property
    def number(self) -> dict[Invocation, int]:
        """Every invocation once, numbered in the order of the attributes."""
        return _numbered(self.attributes)

    @property
    def fan(self) -> Fan:
        return self.fan_start, self.fan_subscription

    @property
    def invocations(self) -> tuple[Invocation, ...]:
        return tuple(self.number)

    @cached_property
    def chains(self) -> Chains:
        invocation = _invocation_of(self.attributes, self.number)[self.tested_attribute]
        counts = np.bincount(invocation, minlength=len(self.number))
        return Chains(
            start=self.chain_start,
            predicate=self.chain_predicate,
            invocation_start=offsets(counts).astype(np.int32),
            rival_start=self.rival_start,
            rival=self.rival,
        )

    def find_asked(self, attribute: int) -> tuple[Asked, Domain]:
        """The call or joint that an attribute is, and how its values are cut."""
        asked = self.attributes[attribute].asked
        assert asked is not None
        return asked, self.domains[attribute]

    def ranges(self, predicate: int) -> list[tuple[int, int]]:
        """The first and last cells of what a predicate accepts."""
        attribute = int(self.predicate_attribute[predicate])
        if attribute >= 0:
            return [(int(self.predicate_low[predicate]), int(self.predicate_high[predicate]))]
        span = slice(self.set_start[~attribute], self.set_start[~attribute + 1])
        return list(zip(self.set_low[span].tolist(), self.set_high[span].tolist(), strict=True))

    def columns(self) -> set[str]:
        """The event columns that are arguments of operators, or that conditions on their answers look at."""
        return {
            path[0] for a in self.attributes if a.asked is not None for path in event_paths(a.asked)
        }

    def predicate_keys(self) -> list[str]:
        """A key of each predicate that is the same in all plans: its call and the constants it compares with."""
        found = []
        for p, a in enumerate(self.tested_attribute.tolist()):
            domain = self.domains[a]
            bounds = [f"{domain.edge(x, False)}..{domain.edge(y, True)}" for x, y in self.ranges(p)]
            found.append(f"{self.attributes[a].name} {' '.join(bounds)}")
        return found

    def predicate_text(self, predicate: int) -> str:
        """A predicate for people: its call, and what the answer has to be."""
        a = int(self.tested_attribute[predicate])
        ranges = (self.domains[a].range_text(*one) for one in self.ranges(predicate))
        return f"{self.attributes[a].name} {' or '.join(ranges)}"

    @staticmethod
    def combine(plans: "Sequence[OperatorPlan]") -> "OperatorPlan":
        """The chains of several plans, one after the other, in one: so that layers share their calls."""
        if len(plans) == 1:
            return plans[0]
        attributes = [a for plan in plans for a in plan.attributes]
        invocation = _invocation_of(attributes, _numbered(attributes))
        attribute_base = offsets([len(plan.attributes) for plan in plans])
        set_base = offsets([len(plan.set_attribute) for plan in plans])
        predicate_base = offsets([len(plan.predicate_low) for plan in plans])
        chain_base = offsets([len(plan) for plan in plans])
        sets = [
            np.where(
                p.predicate_attribute < 0, p.predicate_attribute - s, p.predicate_attribute + a
            )
            for p, s, a in zip(plans, set_base, attribute_base, strict=False)
        ]
        tested = np.concatenate(
            [p.tested_attribute + a for p, a in zip(plans, attribute_base, strict=False)]
        )
        order = np.argsort(invocation[tested], kind="stable")
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))

        def moved(name: str, bases: Int64s) -> Int32s:
            """The numbers of one kind, counted through all plans."""
            parts = [getattr(p, name) + b for p, b in zip(plans, bases, strict=False)]
            return np.concatenate(parts).astype(np.int32)

        return OperatorPlan(
            signatures=Signatures.of(
                {s.name: s for plan in plans for s in plan.signatures}.values()
            ),
            attributes=tuple(attributes),
            domains=tuple(d for plan in plans for d in plan.domains),
            cuts=Cuts.of([]),
            predicate_attribute=np.concatenate(sets)[order].astype(np.int32),
            predicate_low=np.concatenate([p.predicate_low for p in plans])[order],
            predicate_high=np.concatenate([p.predicate_high for p in plans])[order],
            set_start=_end_to_end([p.set_start for p in plans]),
            set_attribute=moved("set_attribute", attribute_base),
            set_low=np.concatenate([p.set_low for p in plans]),
            set_high=np.concatenate([p.set_high for p in plans]),
            chain_start=_end_to_end([p.chain_start for p in plans]),
            chain_predicate=place[moved("chain_predicate", predicate_base)],
            rival_start=_end_to_end([p.rival_start for p in plans]),
            rival=moved("rival", chain_base),
            joint_start=_end_to_end([p.joint_start for p in plans]),
            joint=moved("joint", attribute_base),
            fan_start=_end_to_end([p.fan_start for p in plans]),
            fan_subscription=np.concatenate([p.fan_subscription for p in plans]),
            mixed=np.concatenate([p.mixed for p in plans]),
        )

    def check(self, subscriptions: int) -> None:
        """What the module says of the arrays, if there are so many subscriptions.

        Predicates stand in the order of their invocations, none is of a joint, and every chain is somebody's.
        """
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        numbers = {n: a for n, a in mine.items() if isinstance(a, np.ndarray) and n != "mixed"}
        check_numbers(np.int32, **numbers)
        check_numbers(np.bool_, mixed=self.mixed)
        self.check_cells(np.array([d.last for d in self.domains], np.int64), of=" of calls")
        check_within(0, len(self.attributes), joint=self.joint)
        deciding = _invocation_of(self.attributes, self.number)[self.tested_attribute]
        require(
            (np.diff(deciding, prepend=0) >= 0).all(), "predicates aren't in order of invocation"
        )
        check_starts(len(self), len(self.chain_predicate), chain_start=self.chain_start)
        check_within(0, len(self.predicate_low), chain_predicate=self.chain_predicate)
        check_starts(len(self), len(self.rival), rival_start=self.rival_start)
        check_within(0, len(self), rival=self.rival)
        check_starts(len(self), len(self.joint), joint_start=self.joint_start)
        check_starts(len(self), len(self.fan_subscription), fan_start=self.fan_start)
        require((np.diff(self.fan_start) > 0).all(), "a chain is nobody's")
        check_within(0, subscriptions, fan_subscription=self.fan_subscription)
        check_alike(len(self), mixed=self.mixed)

    # --- as files ------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every array by the name of its file."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        found = {n: a for n, a in mine.items() if isinstance(a, np.ndarray)}
        found |= self.cuts.arrays("cuts")
        return {_PREFIX + name: array for name, array in found.items()}

    def header(self) -> dict[str, Any]:
        """What isn't an array, for JSON."""
        return {
            "signatures": json.loads(self.signatures.to_json()),
            "attributes": [
                {"path": a.path, "type": to_json(a.type), "asked": encode_asked(a.asked)}
                for a in self.attributes
                if a.asked is not None
            ],
        }

    @staticmethod
    def assemble(
        header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> "OperatorPlan":
        """The plan again, from what `header` and `arrays` gave."""
        mine = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        attributes = tuple(
            Attribute(tuple(a["path"]), from_json(a["type"]), decode_asked(a["asked"]))
            for a in header["attributes"]
        )
        cuts = Cuts.from_arrays("cuts", mine)
        cuts.check()
        return OperatorPlan(
            signatures=Signatures.from_json(json.dumps(header["signatures"])),
            attributes=attributes,
            domains=cuts.domains([(a.path, a.type) for a in attributes]),
            cuts=cuts,
            **{f.name: mine[f.name] for f in fields(OperatorPlan) if f.name in mine},
        )


def _end_to_end(starts: Sequence[Int32s]) -> Int32s:
    """The starts of several lists of runs as one."""
    return offsets(np.concatenate([np.diff(start) for start in starts])).astype(np.int32)


def _invocation_of(attributes: Sequence[Attribute], number: Mapping[Invocation, int]) -> Int64s:
    """The invocation that decides each attribute; -1 for a joint of several invocations."""
    deciding = [only_invocation(a.asked) for a in attributes if a.asked is not None]
    return np.array([-1 if i is None else number[i] for i in deciding], np.int64)


def _numbered(attributes: Iterable[Attribute]) -> dict[Invocation, int]:
    calls = [a.asked for a in attributes if isinstance(a.asked, Call)]
    return {i: n for n, i in enumerate(dict.fromkeys(call.invocation for call in calls))}


def build(
    signatures: Signatures,
    asked: Mapping[Attribute, Domain],
    chain: Int64s,
    tests: Predicates,
    fan_start: Int32s,
    fan_subscription: Int32s,
    plain_owners: Int64s,
) -> OperatorPlan:
    """Number predicates by invocation, chains as they come.

    `tests` are those of chains, each of the chain at the same place of `chain`, which ascends. Their attributes are
    numbered as in `asked`. `plain_owners` have conjunctions without operators.
    """
    chains = len(fan_start) - 1
    tested = tests.tested_attribute
    invocation = _invocation_of(list(asked), _numbered(asked))
    is_joint = invocation[tested] < 0
    joint_start = _starts(chain[is_joint], chains)
    calls = tests.take(np.flatnonzero(~is_joint))
    deciding = invocation[calls.tested_attribute]
    columns = (calls.predicate_attribute, calls.predicate_low, calls.predicate_high)
    keys = np.stack([deciding, *columns], axis=1)
    distinct, predicate = np.unique(keys, axis=0, return_inverse=True)
    predicate = predicate.reshape(-1)
    order = np.lexsort((predicate, chain[~is_joint]))
    rival_start, rival = _rivals(fan_start, fan_subscription, np.diff(joint_start) == 0)
    is_plain = np.isin(fan_subscription, plain_owners)
    return OperatorPlan(
        signatures=signatures,
        attributes=tuple(asked),
        domains=tuple(asked.values()),
        cuts=Cuts.of(list(asked.values())),
        predicate_attribute=distinct[:, 1].astype(np.int32),
        predicate_low=distinct[:, 2].astype(np.int32),
        predicate_high=distinct[:, 3].astype(np.int32),
        set_start=tests.set_start,
        set_attribute=tests.set_attribute,
        set_low=tests.set_low,
        set_high=tests.set_high,
        chain_start=_starts(chain[~is_joint], chains),
        chain_predicate=predicate[order].astype(np.int32),
        rival_start=rival_start,
        rival=rival,
        joint_start=joint_start,
        joint=tested[is_joint],
        fan_start=fan_start,
        fan_subscription=fan_subscription,
        mixed=np.maximum.reduceat(is_plain, fan_start[:-1]) if chains else np.empty(0, np.bool_),
    )


def _starts(chain: Int64s, chains: int) -> Int32s:
    """Where the entries of each chain begin; entries are in the order of chains."""
    return offsets(np.bincount(chain, minlength=chains)).astype(np.int32)


def _rivals(fan_start: Int32s, fan: Int32s, unjoined: Bools) -> tuple[Int32s, Int32s]:
    """For each chain c without joints (`unjoined`), its rivals: the chains whose owners all own c, too."""
    start = np.zeros(len(unjoined) + 1, np.int32)
    owner, chains_each = np.unique(fan, return_counts=True)
    among = np.isin(fan, owner[chains_each > 1])
    chain = np.repeat(np.arange(len(unjoined)), np.diff(fan_start))[among]
    chains_of: dict[int, list[int]] = {}
    for s, c in zip(fan[among].tolist(), chain.tolist(), strict=True):
        chains_of.setdefault(s, []).append(c)
    owners = {c: set(fan[fan_start[c] : fan_start[c + 1]].tolist()) for c in chain.tolist()}
    found: list[int] = []
    for c, mine in sorted(owners.items()):
        if unjoined[c]:
            others = dict.fromkeys(d for s in mine for d in chains_of.get(s, ()) if d != c)
            rivals = [d for d in others if owners[d] <= mine][:_MOST_RIVALS]
            found += rivals
            start[c + 1] = len(rivals)
    return np.cumsum(start, dtype=np.int32), np.array(found, np.int32)
