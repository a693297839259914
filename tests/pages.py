"""Markdown pages as tests: their fenced code blocks, and what it means to run one.

    ```python           executed, all blocks of a page in one namespace, from top to bottom;
                        an expression followed by `# -> value` must have that value
    ```filters          lines of an outcome and a filter, for the `schema` and `event` defined above
    ```error            a filter, `---`, and the exact message it is refused with
    ```selects          lines of a number of rows, or ERROR, and a select, for the `catalog` and `tables` defined above
    ```select-error     a select, `---`, and the exact message it is refused with
    ```sh, ```console   lines that call `penstock` must name commands and options that exist
    ```sh run           commands that run to their end, in the folder that all blocks of the page share
    ```output           what the `sh run` before it prints; `…` is anything, in a line or as a line of its own
    ```sh live          commands that go on, in a terminal of their own
    ```output live      lines that they must print by then, among others; after the last of these they are interrupted

A tag after the language says more: `python no-run` is shown only, `filters not-in-duckdb` holds for
Penstock and not for the oracle, `filters variables` has filters that can't be negated. A tag with a dot in it is a
file's name: `yaml pipeline.yaml` is a file that the commands find.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.shell import Shell, prints

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *GUIDE.glob("*.md")])

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^`\n]*)$")
_ARROW = re.compile(r"#\s*(?:->|→)\s*(?P<value>.+?)\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, its language, its further tags, its text."""

    page: Path
    line: int
    language: str
    tags: frozenset[str]
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is, if it is one."""
        return next((tag for tag in self.tags if "." in tag), None)

    @property
    def runs(self) -> bool:
        """Whether it is executed: Python, or commands."""
        if self.language == "python":
            return "no-run" not in self.tags and self.file is None
        return self.language == "sh" and bool(self.tags & {"run", "live"})


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, from top to bottom."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        first = number
        while lines[number].strip() != opening["ticks"]:
            number += 1
        indent = len(opening["indent"])
        words = opening["info"].split()
        text = "\n".join(line[indent:] for line in lines[first:number])
        yield Block(page, first, words[0] if words else "", frozenset(words[1:]), text)
        number += 1


def run_page(
    page: Path, shell: Shell, places: Mapping[str, str] | None = None, **names: Any
) -> None:
    """Execute a page from top to bottom, in the shell's folder, which is to be the current one.

    `places` says where something really is that the page names; `names` are there for Python.
    """
    namespace: dict[str, Any] = {"__name__": page.stem, **names}
    printed = ""
    found = [_placed(block, places or {}) for block in blocks(page)]
    last_live = next((b for b in reversed(found) if "live" in b.tags), None)
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.file is not None:
            (shell.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (shell.folder / block.file).write_text(block.text + "\n")
        elif block.language == "output" and "live" in block.tags:
            shell.wait_for(block.text.splitlines())
            if block is last_live:
                shell.interrupt()
        elif block.language == "output":
            assert prints(block.text, printed), f"{block.where}: it prints\n{printed}"
        elif block.runs and block.language == "python":
            run_python(block, namespace)
        elif block.runs and "live" in block.tags:
            shell.start(block.text)
        elif block.runs:
            done = shell.run(block.text)
            printed = done.output
            shown = following is not None and following.language == "output"
            if not shown or "live" in following.tags:
                assert done.code == 0, f"{block.where}: exit code {done.code}\n{printed}"


def _placed(block: Block, places: Mapping[str, str]) -> Block:
    text = block.text
    for shown, real in places.items():
        text = text.replace(shown, real)
    return replace(block, text=text)


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Execute a block statement by statement; check what `# -> value` says."""
    padded = "\n" * block.line + block.text  # so that a traceback has the page's line numbers
    for statement in ast.parse(padded, str(block.page)).body:
        claim = _ARROW.search(padded.splitlines()[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), str(block.page), "eval")
            value = eval(code, namespace)
            if claim is not None:
                where = f"{block.page.name}:{statement.end_lineno}"
                assert value == ast.literal_eval(claim["value"]), f"{where}: {value!r}"
        else:
            module = ast.Module([statement], [])
            exec(compile(module, str(block.page), "exec"), namespace)


@dataclass(frozen=True)
class Example:
    """One line of a `filters` block. For ERROR, `reason` is part of the message."""

    where: str
    outcome: str
    filter: str
    reason: str


def examples(block: Block) -> list[Example]:
    """The lines of a `filters` block: outcome, filter, and after two spaces `-- remark`."""
    found = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.strip():
            outcome, _, rest = line.partition(" ")
            filter_, _, remark = rest.strip().partition("  -- ")
            where = f"{block.page.name}:{number}"
            found.append(Example(where, outcome, filter_.strip(), remark.strip()))
    return found
