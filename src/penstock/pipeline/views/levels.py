"""Figures of each level of a configuration: written by workers (`task_files`), added up by the driver.

Seconds are the time that passed while tasks worked on the level.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.remote_paths import AnyPath, paths_in
from penstock.pipeline.task_files import folders_of, leave_in


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The figures of one level, over all documents of a micro-batch or of a frame."""

    level: int
    patterns: int
    """Distinct ones."""
    views: int
    tuples: int
    documents: int
    """Those that went through the level."""
    seconds: float


def add_up(figures: Iterable[LevelFigures]) -> tuple[LevelFigures, ...]:
    """The sum of the figures of several tasks, level by level.

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


def write_levels(folder: AnyPath, figures: Iterable[LevelFigures]) -> None:
    """On a worker: write the figures of a task to the folder of its micro-batch."""
    leave_in(folder, "levels.json", json.dumps([asdict(one) for one in add_up(figures)]))


def read_levels(folder: str | Path) -> tuple[LevelFigures, ...]:
    """The figures of a batch DataFrame that has been run; `folder` is the one that `match_views` was given."""
    return levels_in(*folders_of(Path(folder), None))


def levels_in(*folders: AnyPath) -> tuple[LevelFigures, ...]:
    """The figures that tasks have written to some folders, added up."""
    files = [path for folder in folders for path in paths_in(folder, "*.json")]
    found = [json.loads(path.read_text("utf-8")) for path in files]
    return add_up(LevelFigures(**one) for some in found for one in some)
