"""What each level of a configuration did, in figures: left by workers in small files, added up by the driver.

    <folder>/<batch>/<part>-<name>.json      level, patterns, views, tuples, seconds of one task

Accumulators don't exist in Spark Connect. Seconds are of the worker's processor time at work on the level.
"""

import json
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark import TaskContext

_ALL = "all"


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """One level, over all documents of a micro-batch or of a frame."""

    level: int
    patterns: int
    """That differ."""
    views: int
    tuples: int
    documents: int
    """That went through it."""
    seconds: float


def add_up(figures: Iterable[LevelFigures]) -> tuple[LevelFigures, ...]:
    """The sum of what several tasks did, level by level.

    >>> one = LevelFigures(1, 3, 4, 10, 2, 0.5)
    >>> add_up([one, one])
    (LevelFigures(level=1, patterns=3, views=4, tuples=20, documents=4, seconds=1.0),)
    """
    found: dict[int, LevelFigures] = {}
    for one in figures:
        known = found.get(one.level)
        if known is not None:
            one = LevelFigures(
                one.level,
                max(one.patterns, known.patterns),
                max(one.views, known.views),
                one.tuples + known.tuples,
                one.documents + known.documents,
                one.seconds + known.seconds,
            )
        found[one.level] = one
    return tuple(found[level] for level in sorted(found))


def write_levels(folder: Path, figures: Iterable[LevelFigures]) -> None:
    """On a worker: leave what a task did."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    part = 0 if context is None else context.partitionId()
    target = folder / (batch or _ALL)
    target.mkdir(parents=True, exist_ok=True)
    draft = target / f".{uuid.uuid4().hex}"
    draft.write_text(json.dumps([asdict(one) for one in add_up(figures)]))
    draft.replace(target / f"{part}.json")


def read_levels(folder: str | Path, batch: int | None = None) -> tuple[LevelFigures, ...]:
    """What the levels did in a micro-batch, or in a frame at rest that has been run."""
    found = []
    for name in (_ALL,) if batch is None else (str(batch), _ALL):
        for path in sorted((Path(folder) / name).glob("*.json")):
            found += [LevelFigures(**one) for one in json.loads(path.read_text())]
    return add_up(found)


def forget_levels(folder: Path, batch: int) -> None:
    """Delete what was left of a micro-batch, which is to run."""
    for name in (str(batch), _ALL):
        shutil.rmtree(folder / name, ignore_errors=True)
