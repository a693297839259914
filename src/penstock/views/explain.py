"""Explains why a document matches a tree pattern or doesn't, in the form and words of `matching.explain`.

There is a verdict on each step and condition of the pattern. All verdicts are about one attempt to embed the pattern,
the one that gets furthest: as many steps and conditions hold as can hold together. Of equally good attempts it is the
one whose failing numbers are nearest to the literals, then the first in the document.

    //item[topic = 'ACME'][author]       <item><topic>ACM</topic><author/></item> <item><topic>ACME</topic></item>

    ✓ //item  holds                      the first item has an author, the second the topic: equally good
    ✓ //item/topic  holds
    ✗ //item/topic = 'ACME'  fails: topic is 'ACM'
    ✓ //item/author  holds

Everything below a step that fails is unknown. A document matches if all verdicts hold, since the attempt that gets
furthest is then an embedding. Each step looks at all nodes of the document, in Python: this is for one document and one
pattern at a time.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.base.errors import PenstockError
from penstock.matching.explain import Explanation, LeafVerdict
from penstock.views.comparisons import holds
from penstock.views.documents.documents import Documents
from penstock.views.numerals import number
from penstock.views.pattern_parser import parse_pattern
from penstock.views.pattern_text import comparison_text, path_text
from penstock.views.tree_pattern import ANY, DOCUMENT, PatternNode, TreePattern


class _Attempt(NamedTuple):
    """How far a step and all below it get at a document node. Larger is better."""

    held: int
    """Steps and conditions that hold."""
    nearness: float
    """Minus the sum of what failing numbers are off by."""
    first: int
    """Minus the document node, so that earlier nodes are larger."""


def explain_pattern(
    sid: int, text: str, documents: Documents, lease_end: int, now: int
) -> Explanation:
    """Explain one pattern on a batch of one document.

    >>> from penstock.views.documents.xml_documents import read_xml
    >>> print(explain_pattern(7, "//a[b > 5]/c", read_xml(["<a><b>3</b><b>4</b><c/></a>"]), 2, now=1))
    subscription 7 does not match
      //a[b > 5]/c
      ✓ //a  holds
      ✓ //a/b  holds
      ✗ //a/b > 5  fails: b is '4'
      ✓ //a/c  holds
    """
    for bad in documents.bad:
        raise PenstockError(f"no document that can be read: {bad.reason}")
    if len(documents) != 1:
        raise PenstockError(f"{len(documents)} documents: give one to explain")
    pattern = parse_pattern(text)
    verdicts = tuple(_verdicts(pattern, documents, _furthest(pattern, documents)))
    lacking = sum(verdict.truth is not True for verdict in verdicts)
    return Explanation(sid, text, not lacking, verdicts, lease_end <= now, lacking)


def _furthest(pattern: TreePattern, documents: Documents) -> list[int | None]:
    """The document node of each step in the attempt that gets furthest; None if there is none."""
    below: list[dict[int, _Attempt]] = [{} for _ in pattern.nodes]
    for step in reversed(range(len(pattern.nodes))):
        children = [below[n] for n, node in enumerate(pattern.nodes) if node.parent == step]
        attempts = _attempts(pattern.nodes[step], documents, children)
        below[step] = _best_below(documents, attempts, pattern.nodes[step].descendant)
    places: list[int | None] = []
    for step, node in enumerate(pattern.nodes):
        above = DOCUMENT if node.parent == DOCUMENT else places[node.parent]
        best = None if above is None else below[step].get(above)
        places.append(None if best is None else -best.first)
    return places


def _attempts(
    node: PatternNode, documents: Documents, children: list[dict[int, _Attempt]]
) -> dict[int, _Attempt]:
    """How far a step gets at each node of its label."""
    found = {}
    labels = [_fits(node, name) for name in documents.names]
    for place, label in enumerate(documents.labels.tolist()):
        if labels[label]:
            held, nearness = 1, 0.0
            value = documents.value(place) if node.value else None
            for comparison in node.value:
                if holds((comparison,), value):
                    held += 1
                elif not isinstance(comparison.literal, str):
                    read = None if value is None else number(value)
                    off = (
                        float("inf")
                        if read is None
                        else abs(float(read) - float(comparison.literal))
                    )
                    nearness -= off
            for best in (child[place] for child in children if place in child):
                held, nearness = held + best.held, nearness + best.nearness
            found[place] = _Attempt(held, nearness, -place)
    return found


def _fits(node: PatternNode, name: str) -> bool:
    return not name.startswith("@") if node.label == ANY else name == node.label


def _best_below(
    documents: Documents, attempts: Mapping[int, _Attempt], descendant: bool
) -> dict[int, _Attempt]:
    """For each node, and the document, the best attempt below it, or at its children."""
    found: dict[int, _Attempt] = {}
    for place, attempt in attempts.items():
        above = int(documents.parents[place])
        # Where an attempt as good is known, all nodes above have one as good, too.
        while above not in found or found[above] < attempt:
            found[above] = attempt
            if above == DOCUMENT or not descendant:
                break
            above = int(documents.parents[above])
    return found


def _verdicts(
    pattern: TreePattern, documents: Documents, places: list[int | None]
) -> list[LeafVerdict]:
    found = []
    for step, node in enumerate(pattern.nodes):
        place, path = places[step], path_text(pattern, step)
        reached = node.parent == DOCUMENT or places[node.parent] is not None
        found.append(LeafVerdict(path, place is not None if reached else None, {}))
        for comparison in node.value:
            condition = f"{path} {comparison_text(comparison)}"
            if place is None:
                found.append(LeafVerdict(condition, None, {}))
            else:
                value = documents.value(place)
                truth = holds((comparison,), value)
                name = documents.names[documents.labels[place]]
                found.append(LeafVerdict(condition, truth, {name: value}))
    return found
