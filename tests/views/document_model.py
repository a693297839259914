"""Documents and embeddings as they are defined, without any of the code under test: lxml, json and nested loops."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lxml import etree

from penstock.views.tree_pattern import ANY, PatternNode, Returns, TreePattern, ValueComparison

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)


@dataclass
class Node:
    """A document node; its place in the list of all nodes is its number."""

    label: str
    parent: int
    level: int
    value: str | None
    cont: str
    last: int = -1

    @property
    def is_element(self) -> bool:
        return not self.label.startswith("@")


def xml_nodes(document: bytes | str) -> list[Node]:
    """The nodes of an XML document, by lxml."""
    text = document.encode() if isinstance(document, str) else document
    nodes: list[Node] = []
    _add_element(etree.fromstring(text, _PARSER), -1, 0, nodes)
    return nodes


def _add_element(element: Any, parent: int, level: int, nodes: list[Node]) -> None:
    number = len(nodes)
    value = str(element.xpath("string(.)"))
    # libxml2 gets namespaces of a subtree wrong where several prefixes mean the same: it is made a document first.
    alone = etree.fromstring(etree.tostring(element, encoding="utf-8", with_tail=False), _PARSER)
    cont = etree.tostring(alone, method="c14n", with_comments=False).decode()
    nodes.append(Node(_written(element), parent, level, value, cont))
    for index, text in enumerate(element.attrib.values(), 1):
        place = len(nodes)
        name = str(element.xpath(f"name(@*[{index}])"))
        nodes.append(Node(f"@{name}", number, level + 1, text, _attribute(name, text), place))
    for child in element:
        if isinstance(child.tag, str):
            _add_element(child, number, level + 1, nodes)
    nodes[number].last = len(nodes) - 1


def _written(element: Any) -> str:
    """A name as it is written, with its prefix."""
    name = etree.QName(element).localname
    return f"{element.prefix}:{name}" if element.prefix else name


def _attribute(name: str, text: str) -> str:
    element = etree.Element("x", {"y": text})
    written = etree.tostring(element, method="c14n").decode()
    return name + written.removeprefix("<x y").removesuffix("></x>")


class Pairs(list):  # type: ignore[type-arg]
    """A JSON object with its keys as they are written, repeated ones too."""


class Numeral(str):
    """A JSON number as it is written."""


def json_nodes(document: str) -> list[Node]:
    """The nodes of a JSON document, by the json module."""
    read = json.loads(document, object_pairs_hook=Pairs, parse_int=Numeral, parse_float=Numeral)
    nodes: list[Node] = []
    _add_keys(read, -1, 0, nodes)
    return nodes


def _add_keys(pairs: Pairs, parent: int, level: int, nodes: list[Node]) -> None:
    for key, value in pairs:
        for element in _flattened(value):
            number = len(nodes)
            nodes.append(Node(key, parent, level, _json_value(element), _json_text(element)))
            if isinstance(element, Pairs):
                _add_keys(element, number, level + 1, nodes)
            nodes[number].last = len(nodes) - 1


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, list) and not isinstance(value, Pairs):
        for element in value:
            yield from _flattened(element)
    else:
        yield value


def _json_value(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Pairs):
        inner = [_json_value(e) for _, v in value for e in _flattened(v)]
        return "".join(text for text in inner if text is not None)
    return str(value)


def _json_text(value: Any) -> str:
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_json_text(k)}:{_json_text(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    return str(value) if isinstance(value, Numeral) else json.dumps(value, ensure_ascii=False)


def _exact(text: str) -> Fraction | float | None:
    """A number as a fraction; past all literals, it is infinite or next to nothing."""
    mantissa, _, power = text.lower().partition("e")
    if len(power.lstrip("+-0")) > 4:
        try:
            number, _ = Fraction(mantissa), Fraction(power)
        except ValueError:
            return None
        if not power.startswith("-"):
            return number and number * Fraction(10) ** 5000
        return number / Fraction(10) ** 5000
    try:
        return Fraction(text)
    except ValueError:
        return None


def holds_on(comparison: ValueComparison, value: str | None) -> bool:
    """Whether a comparison holds, as LANGUAGE.md says it."""
    if value is None:
        return False
    literal: Any = comparison.literal
    left: Any = value
    if not isinstance(literal, str):
        found = _exact(value.strip(" \t\r\n"))
        if found is None:
            return False
        left, literal = found, Fraction(literal)
    tests: dict[str, Callable[[], bool]] = {
        "=": lambda: left == literal,
        "<>": lambda: left != literal,
        "<": lambda: left < literal,
        "<=": lambda: left <= literal,
        ">": lambda: left > literal,
        ">=": lambda: left >= literal,
    }
    return tests[comparison.operator]()


def embeddings(pattern: TreePattern, nodes: list[Node]) -> list[tuple[int, ...]]:
    """All embeddings, sorted: for every pattern node the number of a document node."""
    found: list[tuple[int, ...]] = []

    def bind(bound: tuple[int, ...]) -> None:
        if len(bound) == len(pattern.nodes):
            found.append(bound)
            return
        wanted = pattern.nodes[len(bound)]
        above = bound[wanted.parent] if wanted.parent >= 0 else -1
        for number, node in enumerate(nodes):
            held = all(holds_on(c, node.value) for c in wanted.value)
            if held and stands_below(wanted, number, above, nodes):
                bind((*bound, number))

    bind(())
    return found


def stands_below(wanted: PatternNode, number: int, above: int, nodes: list[Node]) -> bool:
    """Whether a node has the label of a pattern node, and lies below (or is a child of) the one above, as it asks."""
    node = nodes[number]
    named = node.label == wanted.label or (wanted.label == ANY and node.is_element)
    lies = node.parent == above or (wanted.descendant and _is_below(number, above, nodes))
    return named and lies


def _is_below(number: int, above: int, nodes: list[Node]) -> bool:
    while number != -1:
        number = nodes[number].parent
        if number == above:
            return True
    return False


def rows(pattern: TreePattern, documents: dict[int, list[Node]]) -> list[dict[str, Any]]:
    """The tuples of a pattern, as `tuple_schema` lays them out."""
    found = []
    for document, nodes in sorted(documents.items()):
        for embedding in embeddings(pattern, nodes):
            row: dict[str, Any] = {"document": document}
            for place, (number, wanted) in enumerate(zip(embedding, pattern.nodes, strict=True)):
                node = nodes[number]
                row[f"n{place}"] = (number << 40) | (node.last << 16) | node.level
                if Returns.VAL in wanted.returns:
                    row[f"n{place}_val"] = node.value
                if Returns.CONT in wanted.returns:
                    row[f"n{place}_cont"] = node.cont
            found.append(row)
    return found
