"""The attributes of an event that decide whether it is in a region."""

from collections.abc import Iterator

from penstock.covering.regions import Region
from penstock.language.calls import Path
from penstock.language.hidden_attributes import HIDDEN, OrderAsked, read_hidden

ANY_ATTRIBUTE = "*"
"""Stands for all attributes: an operator, or a computed attribute, may look at any of them."""


def region_attributes(region: Region) -> set[str]:
    """The names of the attributes that a region tests. Of a field in a struct, it is the struct's name.

    >>> from penstock.covering.reading import region
    >>> schema = {"a": "int", "b": "int", "s": "string", "t": "string"}
    >>> sorted(region_attributes(region("a < b OR s LIKE '%y'", schema)))
    ['a', 'b', 's']
    """
    paths = {path for box in region.boxes for path, _ in box}
    return {name for path in paths for name in _names(path)}


def _names(path: Path) -> Iterator[str]:
    if not path[0].startswith(HIDDEN):
        yield path[0]
        return
    try:
        asked = read_hidden(path)
    except ValueError:
        yield ANY_ATTRIBUTE
        return
    if isinstance(asked, OrderAsked):
        yield asked.left[0]
        yield asked.right[0]
    else:
        yield asked.path[0]
