"""The engines by name. All give the same rows; `auto` picks one by the shape of the plan.

An engine is named with its options, if any: `tree`, `tree:collapse=no`, `tree:collapse=no,tails=no`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.base.arrays import AnyArray, read_only
from penstock.base.errors import PenstockError
from penstock.matching.engines.batch import BatchEngine
from penstock.matching.engines.gates import Gate, build_core
from penstock.matching.engines.interface import Engine, Hits
from penstock.matching.engines.mbd import MbdEngine
from penstock.matching.engines.naive import NaiveEngine
from penstock.matching.engines.tree import TreeEngine
from penstock.matching.invariants import require
from penstock.matching.plan import Plan

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (NaiveEngine, TreeEngine, MbdEngine, BatchEngine)
}
AUTO = "auto"

_MOSTLY = 0.9
_OFTEN = 500.0


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, a value for each of its options, and why it was chosen."""

    kind: type[Engine]
    options: Mapping[str, str]
    reason: str

    @property
    def label(self) -> str:
        """The name, with the options that differ from the default."""
        changed = [
            f"{name}={value}"
            for name, value in self.options.items()
            if value != self.kind.options[name][0]
        ]
        return self.kind.name + (":" + ",".join(changed) if changed else "")

    def index(self, plan: Plan) -> dict[str, AnyArray]:
        """The arrays of this engine and of the core that it works on, from the plan if it was stored with them."""
        prefix = f"{self.label}."
        stored = {
            name.removeprefix(prefix): array
            for name, array in plan.index.items()
            if name.startswith(prefix)
        }
        built = stored or self.build(plan)
        return {name: read_only(array) for name, array in built.items()}

    def build(self, plan: Plan) -> dict[str, AnyArray]:
        """The arrays of this engine and of its core, made anew."""
        core = build_core(plan)
        gate = Gate.of(plan, core)
        return core | self.kind.build(plan if gate is None else gate.core, self.options)


def choose(text: str, plan: Plan) -> Choice:
    """The engine that a text names, or for `auto` the one that suits the plan."""
    return _automatic(plan) if text == AUTO else find_engine(text)


def find_engine(text: str) -> Choice:
    """The engine that a text names; PenstockError if there is none."""
    name, _, rest = text.partition(":")
    if name not in ENGINES:
        raise PenstockError(f"no engine {name!r}: there are {', '.join([AUTO, *sorted(ENGINES)])}")
    kind = ENGINES[name]
    options = {option: values[0] for option, values in kind.options.items()}
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        if value not in kind.options.get(option, ()):
            known = "; ".join(f"{o}={'|'.join(v)}" for o, v in kind.options.items())
            raise PenstockError(f"engine {name!r} has no option {part!r}: {known or 'it has none'}")
        options[option] = value
    return Choice(kind, options, "asked for")


def check_index(plan: Plan) -> None:
    """A SnapshotError unless a plan's index is what its engine would build.

    It depends on the plan alone, and is built in a tenth of a second for a million conjunctions (`batch`; the others
    take ten times as long). So nothing else has to check what kernels rely on in it.
    """
    for label in sorted({name.partition(".")[0] for name in plan.index}):
        stored = {n: a for n, a in plan.index.items() if n.partition(".")[0] == label}
        built = find_engine(label).build(plan)
        require(len(stored) == len(built), f"the index {label} has other arrays")
        for name, array in built.items():
            found = stored.get(f"{label}.{name}")
            require(
                found is not None
                and found.dtype == array.dtype
                and found.flags.c_contiguous
                and np.array_equal(found, array),
                f"{name} of the index {label} isn't that of the plan",
            )


def check_engine(text: str) -> None:
    """PenstockError if a text names no engine."""
    if text != AUTO:
        find_engine(text)


def variants() -> list[str]:
    """Every engine, and every engine with one option changed."""
    return [
        label
        for name, kind in ENGINES.items()
        for label in (
            name,
            *(f"{name}:{o}={value}" for o, values in kind.options.items() for value in values[1:]),
        )
    ]


def _automatic(plan: Plan) -> Choice:
    """`mbd` if subscriptions test the same few points again and again, `batch` for everything else.

    Measured on the frozen workloads: with equalities on 5 or 10 values the diagram needs a fifth to a thirtieth of the
    index's time for one event, and no more in blocks. With 1,000 values they are about equal. With ranges, which are
    hardly ever the same twice, `batch` is ahead.
    """
    is_range = plan.tested_attribute < len(plan.domains)  # other tests are mostly left to the gate
    widths = (plan.predicate_high - plan.predicate_low)[is_range]
    points = float(np.mean(widths == 0)) if len(widths) else 0.0
    constants = len(plan.cuts.numbers) + len(plan.cuts.texts)
    uses = len(widths) / max(1, constants)
    facts = (
        f"{plan.conjunctions:,} conjunctions, {points:.0%} of their predicates points, "
        f"{uses:,.1f} for each constant"
    )
    if points >= _MOSTLY and uses >= _OFTEN:
        return replace(find_engine(MbdEngine.name), reason=f"{facts}: much to share")
    return replace(find_engine(BatchEngine.name), reason=f"{facts}: little to share")


__all__ = ["AUTO", "ENGINES", "Choice", "Engine", "Hits", "check_engine", "choose", "variants"]
