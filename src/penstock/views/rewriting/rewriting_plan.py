"""A rewriting as something to run: which inputs, which joins, what is left to check (section 4.1).

    q = //item[topic = 'ACME'][author{val}]/headline       u = //item[author{val}][topic{val}]     w = //item//headline

    read u     item, author, topic        keep where topic = 'ACME'
    join w     item, headline             same item; check that headline is a child of item
    return     author.val from u

A plan says, for each *step*, an input in one of its embeddings (an input may be read in several), what must hold
between the input's own nodes, how it is joined with what there is, and what must hold after that. `planning` makes
plans, and says why they are right; `evaluation` runs them. A plan knows nothing of view numbers: its inputs are the
first, the second, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from penstock.errors import PenstockError
from penstock.views.numerals import number, numeral
from penstock.views.tree_pattern import OPERATORS, Comparison
from penstock.views.values import Comparisons

SAME, CHILD, BELOW, OUTERMOST = "same", "child", "below", "outermost"
"""What may be asked of nodes: to be one node, the child of another, below another, or a child of the document."""

FIRST, ANY_PAIR = "first", "any"
"""How a step is joined if not by nodes: it is the first, or with all of the same document."""

VAL, CONT, TEXT = "val", "cont", "text"
"""Where a value comes from: its own column, the node's content, or a predicate that leaves one text."""


class Check(NamedTuple):
    """`lower` must be SAME as, CHILD of or BELOW `upper`; or OUTERMOST (then both are the node)."""

    kind: str
    upper: int
    lower: int


class Filter(NamedTuple):
    """What the value of an input's node must fulfil, and where the value comes from; the text if it is known."""

    node: int
    source: str
    value: Comparisons
    text: str = ""


class Step(NamedTuple):
    """One input in one of its embeddings, and its join with the steps before."""

    input: int
    """Its place among the rewriting's inputs."""
    images: tuple[int, ...]
    """Node m of the input is node images[m] of the view."""
    within: tuple[Check, ...]
    """Between nodes of the input, by their places in it."""
    filters: tuple[Filter, ...]
    join: str
    """FIRST, SAME, CHILD, BELOW or ANY_PAIR."""
    on: tuple[int, ...]
    """Nodes of the view: all that must be the same, or the upper and the lower one."""
    checks: tuple[Check, ...]
    """Between nodes of the view, once joined."""


class Column(NamedTuple):
    """Where val or cont of the view's node comes from: a step, and a node of its input; the text if it is known."""

    node: int
    step: int
    place: int
    source: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RewritingPlan:
    """A view as computed from inputs: see the module."""

    labels: tuple[str, ...]
    returns: tuple[int, ...]
    steps: tuple[Step, ...]
    vals: tuple[Column, ...]
    conts: tuple[Column, ...]

    def to_json(self) -> list[Any]:
        """For JSON: lists all the way, since there are many plans."""
        return [
            list(self.labels),
            list(self.returns),
            [_step_to_json(step) for step in self.steps],
            [list(column) for column in self.vals],
            [list(column) for column in self.conts],
        ]

    @staticmethod
    def from_json(found: Sequence[Any]) -> "RewritingPlan":
        """What `to_json` gave.

        >>> plan = RewritingPlan(("a",), (0,), (Step(0, (0,), (), (), FIRST, (), ()),), (), ())
        >>> RewritingPlan.from_json(plan.to_json()) == plan
        True
        """
        try:
            labels, returns, steps, vals, conts = found
            return RewritingPlan(
                tuple(str(label) for label in labels),
                tuple(int(n) for n in returns),
                tuple(_step_from_json(step) for step in steps),
                tuple(Column(*column) for column in vals),
                tuple(Column(*column) for column in conts),
            )
        except (TypeError, ValueError) as error:
            raise PenstockError(
                f"not the plan of a rewriting: {error}; plan the views again"
            ) from error


def _step_to_json(step: Step) -> list[Any]:
    filters = [
        [f.node, f.source, [list(c) for c in _written(f.value)], f.text] for f in step.filters
    ]
    within, checks = [list(c) for c in step.within], [list(c) for c in step.checks]
    return [step.input, list(step.images), within, filters, step.join, list(step.on), checks]


def _written(value: Comparisons) -> list[tuple[str, str, bool]]:
    """Operators with the texts of literals, and whether these are numbers."""
    return [
        (c.operator, c.literal, False)
        if isinstance(c.literal, str)
        else (c.operator, numeral(c.literal), True)
        for c in value
    ]


def _step_from_json(found: Sequence[Any]) -> Step:
    place, images, within, filters, join, on, checks = found
    if join not in (FIRST, SAME, CHILD, BELOW, ANY_PAIR):
        raise ValueError(f"{join!r} is no way to join")
    return Step(
        int(place),
        tuple(int(n) for n in images),
        tuple(_check(check) for check in within),
        tuple(_filter(*one) for one in filters),
        str(join),
        tuple(int(n) for n in on),
        tuple(_check(check) for check in checks),
    )


def _check(found: Sequence[Any]) -> Check:
    kind, upper, lower = found
    if kind not in (SAME, CHILD, BELOW, OUTERMOST):
        raise ValueError(f"{kind!r} is no check")
    return Check(str(kind), int(upper), int(lower))


def _filter(node: int, source: str, value: Sequence[Sequence[Any]], text: str) -> Filter:
    comparisons = []
    for operator, literal, is_number in value:
        if operator not in OPERATORS:
            raise ValueError(f"{operator!r} is no operator")
        read = number(str(literal)) if is_number else str(literal)
        if read is None:
            raise ValueError(f"{literal!r} is no number")
        comparisons.append(Comparison(operator, read))
    return Filter(int(node), str(source), tuple(comparisons), str(text))


# --- in words ------------------------------------------------------------------------------------


def explain(plan: RewritingPlan, names: Sequence[str] = ()) -> str:
    """The plan in words, its inputs by name if it is said what they are called."""

    def name(step: int) -> str:
        place = plan.steps[step].input
        return names[place] if names else f"input {place}"

    lines = []
    for at, step in enumerate(plan.steps):
        read = ", ".join(_label(plan, n) for n in step.images)
        how = "read" if step.join == FIRST else "join"
        lines.append(f"{how} {name(at)}: {read}{_joined(plan, step)}")
        for found in step.filters:
            value = " and ".join(f"{c.operator} {_shown(c.literal)}" for c in found.value)
            node = _label(plan, step.images[found.node])
            lines.append(f"  keep where {node}.{found.source} {value}")
        inner = [Check(c.kind, step.images[c.upper], step.images[c.lower]) for c in step.within]
        lines += [f"  check that {_asked(plan, check)}" for check in (*inner, *step.checks)]
    columns = [
        f"{_label(plan, c.node)}.{kind} of {name(c.step)}"
        + (f" (its {c.source})" if c.source != kind else "")
        for kind, found in ((VAL, plan.vals), (CONT, plan.conts))
        for c in found
    ]
    return "\n".join([*lines, *([f"return {', '.join(columns)}"] if columns else [])])


def _shown(literal: str | Decimal) -> str:
    return repr(literal) if isinstance(literal, str) else numeral(literal)


def _label(plan: RewritingPlan, node: int) -> str:
    label = plan.labels[node]
    return label if plan.labels.count(label) == 1 else f"{label} (n{node})"


def _joined(plan: RewritingPlan, step: Step) -> str:
    nodes = [_label(plan, n) for n in step.on]
    if step.join == FIRST:
        return ""
    if step.join == SAME:
        return f"; the same {', '.join(nodes)}"
    if step.join == ANY_PAIR:
        return "; all of the same document"
    return f"; {nodes[1]} {'a child of' if step.join == CHILD else 'below'} {nodes[0]}"


def _asked(plan: RewritingPlan, check: Check) -> str:
    upper, lower = _label(plan, check.upper), _label(plan, check.lower)
    if check.kind == OUTERMOST:
        return f"{lower} is outermost"
    if check.kind == SAME:
        return f"{lower} is the same node both times"
    return f"{lower} is {'a child of' if check.kind == CHILD else 'below'} {upper}"
