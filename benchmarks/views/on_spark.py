"""10,000 views over 200 documents on Spark: level by level along a plan, beside all straight from the documents.

Section 5.5 with one machine for the 300: no network lies between views, and both ways share two cores. What is timed is
the job from documents to rows, which are thrown away; once before the clock runs, so that workers have their kernels,
the plan and the patterns. The time of a document is the job's by the number of documents: all that its views get.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Section, Step
from benchmarks.sheets import Sheet
from benchmarks.views import published
from benchmarks.views.documents import draw_documents
from benchmarks.views.drawing import POPULAR, Recipe, draw_views
from penstock.views.choosing.loga import WIDER
from penstock.views.designing import Wishes, plan_views
from penstock.views.documents.xml_documents import read_xml
from penstock.views.pattern_text import pattern_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipeline import LevelFigures
    from penstock.pipeline.views.match import Views

_SAMPLED = 8  # documents that views are measured on
_CAPACITY = 30


@dataclass(frozen=True, slots=True)
class Delivered:
    """One way from documents to all views."""

    way: str
    views: int
    documents: int
    rows: int
    seconds: float
    from_source: int
    levels: "tuple[LevelFigures, ...]"

    @property
    def milliseconds(self) -> float:
        """Per document."""
        return 1000 * self.seconds / self.documents

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "levels"} | {
            "levels": [
                {name: getattr(level, name) for name in level.__slots__} for level in self.levels
            ]
        }


def measure(
    spark: "SparkSession", step: Step, recipe: Recipe = POPULAR, documents: int = 200
) -> Section:
    """Both ways, on the same documents."""
    texts = [pattern_text(view) for view in draw_views(recipe)]
    drawn = draw_documents(documents)
    step("planning the views")
    source = published.POPULAR_SOURCE if recipe == POPULAR else None
    wishes = Wishes(capacity=_CAPACITY, source_capacity=source, wider=WIDER)
    design = plan_views(texts, wishes, read_xml(drawn[:_SAMPLED]))
    rows = [(f"d{number}", text) for number, text in enumerate(drawn)]
    frame = spark.createDataFrame(rows, "id string, document string").repartition(
        int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    )
    found = []
    ways: list[tuple[str, Views, int]] = [
        ("along the plan", design.plan, design.plan.from_source),
        ("straight from the documents", texts, len(texts)),
    ]
    for way, views, from_source in ways:
        step(f"{len(texts):,} views over {documents} documents, {way}")
        found.append(_delivered(frame.cache(), way, views, from_source, documents, len(texts)))
    return Section("on-spark", found, [_sheet(found), _levels_sheet(found[0])])


def _delivered(
    frame: "DataFrame", way: str, views: "Views", from_source: int, documents: int, count: int
) -> Delivered:
    from penstock.pipeline import match_views, read_levels

    with TemporaryDirectory(prefix="penstock-views-") as name:
        told = match_views(frame, views, folder=Path(name) / "plan", levels=Path(name) / "levels")
        rows = told.count()
        began = time.perf_counter()
        told.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
        levels = read_levels(Path(name) / "levels")
    return Delivered(way, count, documents, rows, seconds, from_source, levels)


def _sheet(found: Sequence[Delivered]) -> Sheet:
    rows = tuple(
        (
            one.way,
            f"{one.views:,}",
            f"{one.from_source:,}",
            f"{one.documents:,}",
            f"{one.rows:,}",
            f"{one.milliseconds:,.1f}",
            f"{1000 * one.levels[0].seconds / one.documents:,.1f}",
        )
        for one in found
    )
    plan, straight = found
    ratio = straight.milliseconds / plan.milliseconds
    notes = (
        f"along the plan a document is with all its views {ratio:.2f} times as fast (goal: above 1)",
        "the paper, over a network of 300 machines: 2 to 2.5 s a document, and 100 ms for extraction of 72 views",
    )
    columns = (
        "way",
        "views",
        "from the source",
        "documents",
        "rows",
        "ms a document",
        "extraction, ms",
    )
    return Sheet("Documents to all views, on Spark (section 5.5)", columns, rows, notes)


def _levels_sheet(found: Delivered) -> Sheet:
    rows = tuple(
        (
            str(level.level),
            f"{level.patterns:,}",
            f"{level.views:,}",
            f"{level.tuples:,}",
            f"{1000 * level.seconds / found.documents:,.2f}",
        )
        for level in found.levels
    )
    columns = ("level", "patterns", "views", "tuples", "ms a document")
    return Sheet("What each level does along the plan", columns, rows)
