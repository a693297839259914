"""Fronts of packages: a package imports a name that it offers when the name is first used.

So the core works without importing Spark, and `penstock --help` without importing the core or Spark. And a process that
Spark starts imports only what it needs of `penstock.pipeline`: importing all of it would take two seconds.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def front(package: str, rooms: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that offers names of its modules.

    >>> find = front("penstock", {"base.durations": ["microseconds"]})
    >>> find("microseconds")("1s")
    1000000
    >>> find("nothing")
    Traceback (most recent call last):
    AttributeError: module 'penstock' has no attribute 'nothing'
    """
    room_of = {name: room for room, names in rooms.items() for name in names}

    def find(name: str) -> Any:
        if name not in room_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        room = importlib.import_module(f"{package}.{room_of[name]}")
        # All names of the module at once: one that is called like its module would otherwise stand for the module.
        for own in rooms[room_of[name]]:
            setattr(sys.modules[package], own, getattr(room, own))
        return getattr(room, name)

    return find
