"""The house: who may import whom, that every module is reached by a user, and that a name means one thing.

All imports are read, lazy ones and those for types alike, and so are the names that fronts of packages promise.
"""

import ast
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"

LAYERS = [
    ("base",),
    ("language",),
    ("matching", "operators", "covering"),
    ("joins", "views"),
    ("registry",),
    ("pipeline", "delivery", "network"),
    ("server",),
    ("", "cli", "__main__"),
]
"""Rooms from the core to the edge; "" is the package itself, the public API."""

EDGES = {
    "pyspark",
    "sqlalchemy",
    "typer",
    "rich",
    "starlette",
    "fastapi",
    "uvicorn",
    "httpx",
    "zenoh",
}
"""What the core doesn't import: Spark, databases, the terminal, the web."""

DOORS = [
    "penstock",
    "penstock.__main__",
    "penstock.operators.library",
    "penstock.server.sides.spark_child",
]
"""Where users come in: the public API, the command line, operators that pipelines name by their path, and the process
that `penstock serve` starts for Spark."""

SAME_IN_TWO_ROOMS = {
    "explain": "the command, and what it asks of each kind",
    "interface": "what every engine does, what every strategy does",
    "joints": "calls that must hold together: how they are read, how they are decided",
    "match": "the command, and the batch job of each kind",
    "naive": "the oracle among engines, and among strategies",
    "snapshots": "numbered versions of the subscriptions of each kind",
}
"""Names of modules that occur twice, and what they mean in both places."""


@functools.cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCES.rglob("*.py"):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports() -> dict[str, set[str]]:
    return {name: set(_imported(name, path)) for name, path in modules().items()}


def _imported(module: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{module} imports by its own place"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "front":
            package, rooms = (ast.literal_eval(argument) for argument in node.args)
            yield from (f"{package}.{room}" for room in rooms)


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def test_imports_go_from_the_edge_to_the_core():
    """No room imports one that stands nearer to the edge."""
    layer = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    wrong = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others & modules().keys()
        if layer[room_of(other)] > layer[room_of(module)]
    ]
    assert not wrong


def test_no_cycle_between_rooms_or_modules():
    """Not between rooms of a layer, nor between modules, were it by imports inside functions."""
    rooms = defaultdict(set)
    for module, others in imports().items():
        for other in others & modules().keys():
            if room_of(module) != room_of(other) and room_of(module):
                rooms[room_of(module)].add(room_of(other))
    for graph in (rooms, {m: others & modules().keys() for m, others in imports().items()}):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            raise AssertionError(" -> ".join(error.args[1])) from None


def test_the_core_imports_nothing_of_the_edge():
    """The core works without Spark, databases and the web."""
    core = {room for rooms in LAYERS[:4] for room in rooms}
    wrong = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if room_of(module) in core and other.split(".")[0] in EDGES
    ]
    assert not wrong


def test_every_module_is_reached_by_a_user():
    """From the public API or the command line."""
    assert not modules().keys() - _reached(DOORS)


def _reached(doors: Iterable[str]) -> set[str]:
    found: set[str] = set()
    ahead = list(doors)
    while ahead:
        module = ahead.pop()
        if module not in found:
            found.add(module)
            parents = itertools.accumulate(module.split("."), "{}.{}".format)
            ahead += (imports()[module] | set(parents)) & modules().keys()
    return found


def test_a_module_name_means_one_thing():
    """Two rooms share the name of a module only where it means the same in both."""
    places = defaultdict(list)
    for module, path in modules().items():
        if path.stem != "__init__":
            places[path.stem].append(module)
    twice = {name for name, found in places.items() if len(found) > 1}
    assert twice == SAME_IN_TWO_ROOMS.keys()
