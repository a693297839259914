"""The folder that a batch job writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.cli.event_files import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OUT_FORMATS = ("parquet", "json")
STDOUT = "-"
_WRITTEN = ("part-", "_SUCCESS", ".part-", "._SUCCESS")  # what Spark leaves in a folder


@dataclass(frozen=True)
class OutputTarget:
    """A folder that a job writes. Nothing but the output of an earlier job is ever replaced."""

    path: str
    format: str
    overwrite: bool
    local: bool  # on this machine, not on a Connect server

    def check(self, option: str, events: str) -> None:
        """Refuse, before Spark starts, a folder in which something would be lost."""
        folder = Path(self.path)
        elsewhere = not self.local or "://" in self.path
        if elsewhere or self.path in ("", STDOUT) or not folder.exists():
            return
        if not folder.is_dir():
            raise typer.BadParameter(f"{self.path} is a file: give a folder", param_hint=option)
        inside = sorted(p.name for p in folder.iterdir())
        if inside and not self.overwrite:
            raise typer.BadParameter(
                f"{self.path} is there already: --overwrite replaces it", param_hint=option
            )
        if folder.resolve() == Path(events).resolve():
            raise typer.BadParameter(f"{self.path} holds the events", param_hint=option)
        strange = [name for name in inside if not name.startswith(_WRITTEN)]
        if strange:
            raise typer.BadParameter(
                f"{self.path} holds more than the output of an earlier job ({strange[0]}): "
                "give another folder, or empty it yourself",
                param_hint=option,
            )

    def write(self, rows: "DataFrame") -> None:
        # An empty folder may be there already: Spark writes into one only if it may overwrite it.
        mode = "overwrite" if self.overwrite or self._is_empty() else "error"
        rows.write.mode(mode).format(self.format).save(spark_path(self.path, local=self.local))

    def _is_empty(self) -> bool:
        folder = Path(self.path)
        return self.local and folder.is_dir() and not any(folder.iterdir())
