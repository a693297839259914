"""Tree patterns: what a view asks of a document (delta §4.1).

    //news/item[topic = 'ACME'][author{val}][headline{cont}]

    news          nodes in the order of the text, parents first
     | item
     |  |- topic  = 'ACME'
     |  |- author    val
     |  `- headline  cont

A pattern's *tuples* on a document are all its embeddings: for every pattern node the ID of a document node with that
label, where edges and value predicates hold. A tuple has the IDs of all nodes, asked for or not: they make views
joinable. The subscriber gets only what the nodes' `returns` ask for, once for each different combination of the nodes
that ask for something (the annotated nodes).
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import IntFlag


class Returns(IntFlag):
    """What a subscriber gets of a node: its ID, its value, its content."""

    NOTHING = 0
    ID = 1
    VAL = 2
    CONT = 4


OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
"""The operators that compare a value with a literal."""

DOCUMENT = -1
"""The parent of a pattern's outermost nodes."""

ANY = "*"
"""The label of a node that may be any element."""


@dataclass(frozen=True, order=True)
class ValueComparison:
    """`value operator literal`. A literal that is a number compares numbers, and a value that isn't one fails; any
    other literal compares texts.

    Numbers are decimal, as they are written: a float could be another number than the one that was written.
    """

    operator: str
    literal: str | Decimal


@dataclass(frozen=True)
class PatternNode:
    """One node of a pattern."""

    label: str
    """An element's name (a JSON key), `@name` of an attribute, or `*`."""
    parent: int
    """Its parent's place among the pattern's nodes, or `DOCUMENT`."""
    descendant: bool = False
    """Whether it may lie anywhere below its parent (`//`) instead of directly below it (`/`)."""
    returns: Returns = Returns.NOTHING
    value: tuple[ValueComparison, ...] = ()
    """Comparisons that must all hold on its value; sorted."""


@dataclass(frozen=True)
class TreePattern:
    """Nodes, parents before children, in depth-first order. Several may have no parent: all must be in the document."""

    nodes: tuple[PatternNode, ...]
