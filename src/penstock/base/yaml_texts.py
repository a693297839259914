"""Reads YAML of bounded size, because anybody may have written the file. Errors name the place in the text.

YAML has aliases, which repeat a part of the file: nine lines of nine aliases each are a billion values for a program
that walks through them. YAML also lets a key stand twice, and forgets the first. Both are refused here. So are texts
and nestings that are larger than any description of a pipeline.
"""

from typing import Any

import yaml

MAX_TEXT = 1 << 20
"""Characters of a file."""
MAX_VALUES = 10_000
"""Values in a file, aliases counted as what they stand for."""
MAX_LEVELS = 50
MAX_NUMBER = 100
"""Characters of a number. `1:30:00` is one to the base 60, and takes time in the square of its length to read."""


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class YamlError(ValueError):
    """Why a text is refused, and where."""


def read_yaml(text: str) -> Any:
    """What a YAML text says; a YamlError if it isn't YAML, or is refused.

    >>> read_yaml("source: {format: json, path: ticks/}")
    {'source': {'format': 'json', 'path': 'ticks/'}}
    >>> read_yaml("sink: a\\nsink: b")
    Traceback (most recent call last):
    penstock.base.yaml_texts.YamlError: line 2, column 1: the key 'sink' stands here twice, first in line 1
    """
    if len(text) > MAX_TEXT:
        raise YamlError(f"{len(text):,} characters long: at most {MAX_TEXT:,} are allowed")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Sizes().of(node, 0)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error
    except RecursionError:
        raise YamlError(f"nested too deeply: at most {MAX_LEVELS} levels are allowed") from None
    except YamlError:
        raise
    # What PyYAML raises when a tag and its value don't fit, as in `!!bool maybe`.
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise YamlError(f"a value can't be read: {error}") from error
    finally:
        loader.dispose()


class _Sizes:
    """How many values nodes stand for. A node that aliases repeat is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._above: set[int] = set()

    def of(self, node: yaml.Node, level: int) -> int:
        if id(node) in self._known:
            return self._known[id(node)]
        if id(node) in self._above:
            raise YamlError(f"{_place(node)}: this part contains itself")
        if level > MAX_LEVELS:
            raise YamlError(f"{_place(node)}: nested too deeply, at most {MAX_LEVELS} levels")
        if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER:
            raise YamlError(f"{_place(node)}: a number of {len(node.value):,} characters")
        self._above.add(id(node))
        size = 1
        for child in _children(node):
            size += self.of(child, level + 1)
            if size > MAX_VALUES:
                raise YamlError(
                    f"{_place(child)}: more than {MAX_VALUES:,} values up to here, "
                    "aliases counted as what they stand for"
                )
        self._above.remove(id(node))
        self._known[id(node)] = size
        return size


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return []
    first: dict[tuple[str, str], yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError(f"{_place(key)}: a key is text")
        before = first.setdefault((key.tag, key.value), key)
        if before is not key:
            raise YamlError(
                f"{_place(key)}: the key {key.value!r} stands here twice, "
                f"first in line {before.start_mark.line + 1}"
            )
    return [part for pair in node.value for part in pair]


def _place(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"
