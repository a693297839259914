"""The engines by name. All give the same rows; `auto` picks one."""

from penstock.errors import PenstockError
from penstock.matching.engines.batch import BatchEngine
from penstock.matching.engines.interface import Engine, Hits
from penstock.matching.engines.naive import NaiveEngine

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (NaiveEngine, BatchEngine)}
DEFAULT = BatchEngine.name
NAIVE = NaiveEngine


def engine_class(name: str) -> type[Engine]:
    """The engine of a name, or the default for `auto`."""
    chosen = DEFAULT if name == "auto" else name
    if chosen not in ENGINES:
        raise PenstockError(f"no engine {name!r}: there are auto, {', '.join(sorted(ENGINES))}")
    return ENGINES[chosen]


__all__ = ["DEFAULT", "ENGINES", "NAIVE", "Engine", "Hits", "engine_class"]
