"""A benchmark of several experiments: each one's figures, tables and plot, and the files they become."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.bench.report import Sheet
from penstock.bench.results import machine, write_page

Step = Callable[[str], None]
"""Told what is being done now."""


class Figured(Protocol):
    """What has figures for JSON."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment, done. `plot` makes a picture; False if there is nothing to plot with."""

    name: str
    figures: Sequence[Figured]
    sheets: Sequence[Sheet]
    plot: Callable[[Path], bool] | None = None


@dataclass(slots=True)
class Findings:
    """What has been found so far, by a benchmark that gives its name to the files."""

    name: str
    title: str
    about: str
    sections: list[Section] = field(default_factory=list)

    def add(self, section: Section) -> None:
        self.sections.append(section)

    def write(self, folder: Path, closing: Sequence[Sheet] = ()) -> None:
        """The last section's JSON and plot, and a page of all tables, the closing ones first."""
        folder.mkdir(parents=True, exist_ok=True)
        last = self.sections[-1]
        target = folder / f"{self.name}-{last.name}.json"
        content = {"machine": machine(), "figures": [one.to_dict() for one in last.figures]}
        target.write_text(json.dumps(content, indent=2) + "\n")
        if last.plot is not None:
            last.plot(target.with_suffix(".png"))
        tables = [sheet for section in self.sections for sheet in section.sheets]
        write_page(folder / f"{self.name}.md", self.title, self.about, [*closing, *tables])
