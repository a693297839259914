"""Tables: on the screen, and in Markdown for a page.

A `Sheet` is a table before anybody knows where it will be shown.
"""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with a title and remarks. The first `words` columns are words, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    words: int = 1

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for number, column in enumerate(self.columns):
            table.add_column(
                column, justify="left" if number < self.words else "right", no_wrap=number == 0
            )
        for row in self.rows:
            table.add_row(*[Text(cell, _colour(cell)) for cell in row])
        console.print(table)
        for remark in self.remarks:
            console.print(Text(f"  {remark}", "dim"), soft_wrap=True)
        console.print()

    def markdown(self) -> str:
        rule = ["---" if n < self.words else "---:" for n in range(len(self.columns))]
        lines = [f"### {self.title}", ""]
        lines += ["| " + " | ".join(row) + " |" for row in (self.columns, rule, *self.rows)]
        lines += ["", *[f"- {remark}" for remark in self.remarks]]
        return "\n".join(lines).rstrip() + "\n"


def format_figure(value: float | None) -> str:
    """Three figures that mean something.

    >>> [format_figure(v) for v in (None, 0, 0.01234, 1.234, 12.34, 1234.5)]
    ['', '0', '0.012', '1.23', '12.3', '1,234']
    """
    if value is None:
        return ""
    size = abs(value)
    if size == 0:
        return "0"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def format_verdict(is_reached: bool, measured: float, aim: float) -> str:
    """Whether an aim is reached, and how many times the aim was measured.

    >>> format_verdict(True, 3, 4)
    'reached, × 0.75'
    """
    return f"{'reached' if is_reached else 'missed'}, × {measured / aim:.2f}"


def _colour(cell: str) -> str:
    if cell.startswith("reached"):
        return "green"
    return "red" if cell.startswith("missed") else ""
