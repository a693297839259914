"""A rewriting as something to run: its inputs, its joins, and the checks that are left (delta §4.1).

    q = //item[topic = 'ACME'][author{val}]/headline       u = //item[author{val}][topic{val}]     w = //item//headline

    read u     item, author, topic        keep where topic = 'ACME'
    join w     item, headline             same item; check that headline is a child of item
    return     author.val from u

A *step* of a plan reads an input in one of its embeddings (an input may be read in several). It has the checks between
the input's own nodes, the join with the steps before, and the checks after that join. `planning` makes plans, and says
why they are right; `evaluation` runs them. A plan knows nothing of view numbers: its inputs are the first, the second,
and so on.
"""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.views.comparisons import Comparisons

SAME, CHILD, BELOW, OUTERMOST = "same", "child", "below", "outermost"
"""What a check demands of nodes: to be one node, the child of another, below another, or a child of the document."""

FIRST, ANY_PAIR = "first", "any"
"""How a step is joined if not by nodes: it is the first, or is joined with all rows of the same document."""

VAL, CONT, TEXT = "val", "cont", "text"
"""Where a value comes from: its own column, the node's content, or a predicate that leaves one text."""


class Check(NamedTuple):
    """`lower` must be SAME as, CHILD of or BELOW `upper`; or OUTERMOST (then both are the node)."""

    kind: str
    upper: int
    lower: int


class Filter(NamedTuple):
    """The comparisons that the value of an input's node must fulfil, and where it comes from; its text if known."""

    node: int
    source: str
    value: Comparisons
    text: str = ""


class PlanStep(NamedTuple):
    """One input in one of its embeddings, and its join with the steps before."""

    input: int
    """Its place among the rewriting's inputs."""
    images: tuple[int, ...]
    """Node m of the input is node images[m] of the view."""
    within: tuple[Check, ...]
    """Checks between nodes of the input, by their places in it."""
    filters: tuple[Filter, ...]
    join: str
    """FIRST, SAME, CHILD, BELOW or ANY_PAIR."""
    on: tuple[int, ...]
    """Nodes of the view: all that must be the same, or the upper and the lower one; empty if not joined by nodes."""
    checks: tuple[Check, ...]
    """Checks between nodes of the view, after the join."""


class PlanColumn(NamedTuple):
    """Where val or cont of the view's node comes from: a step, and a node of its input; the text if it is known."""

    node: int
    step: int
    place: int
    source: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RewritingPlan:
    """How a view is computed from inputs: see the module."""

    returns: tuple[int, ...]
    """What each node of the view returns: `Returns` as numbers."""
    steps: tuple[PlanStep, ...]
    vals: tuple[PlanColumn, ...]
    conts: tuple[PlanColumn, ...]
