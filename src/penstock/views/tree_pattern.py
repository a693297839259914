"""Tree patterns: what a view asks of a document (delta §4.1).

    //news/item[topic = 'ACME'][author{val}][headline{cont}]

    news          nodes in document order of the text, parents first
     | item
     |  |- topic  = 'ACME'
     |  |- author    val
     |  `- headline  cont

A pattern's *tuples* on a document are all its embeddings: for every pattern node the ID of a document node with that
label, where edges and value predicates hold. IDs of all nodes belong to a tuple, asked for or not: they make views
joinable. What the subscriber gets is `returns`: the annotated attributes, once for each different combination of the
annotated nodes.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import IntFlag


class Returns(IntFlag):
    """What of a node a subscriber gets."""

    NOTHING = 0
    ID = 1
    VAL = 2
    CONT = 4


OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
"""How a value can be compared with a literal."""

DOCUMENT = -1
"""The parent of a pattern's outermost nodes."""

ANY = "*"
"""The label of a node that may be any element."""


@dataclass(frozen=True, order=True)
class ValueComparison:
    """`value operator literal`: as numbers if the literal is one (a text that is none fails), else as texts.

    Numbers are decimal, as they are written: a float would be another number than the one that was meant.
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
    """What its value must fulfil, all of it; sorted."""


@dataclass(frozen=True)
class TreePattern:
    """Nodes, parents before children, in depth-first order. Several may have no parent: all must be in the document."""

    nodes: tuple[PatternNode, ...]
