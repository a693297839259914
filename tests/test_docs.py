"""The code blocks of README.md and docs/*.md run, so that what a reader copies works."""

import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.pages import PAGES, ROOT, Block, blocks, run_python


def _needs_spark(page: Path) -> bool:
    return any(
        b.language == "python" and "no-run" not in b.tags and re.search(r"\bspark\b", b.text)
        for b in blocks(page)
    )


def _pages() -> list[Any]:
    runnable = [p for p in PAGES if any(b.language == "python" for b in blocks(p))]
    return [
        pytest.param(p, id=p.name, marks=[pytest.mark.spark] if _needs_spark(p) else [])
        for p in runnable
    ]


@pytest.mark.parametrize("page", _pages())
def test_python_blocks_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All Python blocks of a page, in order, in an empty folder; values after `# ->` are checked."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": page.stem}
    if _needs_spark(page):
        namespace["spark"] = request.getfixturevalue("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        for block in blocks(page):
            if block.language == "python" and "no-run" not in block.tags:
                run_python(block, namespace)


def _commands() -> list[Any]:
    """Every call of `penstock` in a shell block of a page."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            if block.language in ("bash", "console", "sh", "shell"):
                found += [pytest.param(c, id=f"{block.where}:{c[:40]}") for c in _calls(block)]
    return found


def _calls(block: Block) -> list[str]:
    joined = re.sub(r"\\\n\s*", " ", block.text)
    lines = [re.sub(r"^\s*\$ ", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if line.startswith("penstock ")]


@pytest.mark.parametrize("command", _commands())
def test_commands_exist_with_their_options(command: str) -> None:
    """A command line on a page is one that the program would parse."""
    typer = pytest.importorskip("typer")
    from penstock.cli import app

    words = shlex.split(command, comments=True)[1:]
    words = words[
        : next((i for i, w in enumerate(words) if w in ("|", ">", "&", "&&")), len(words))
    ]
    program: Any = typer.main.get_command(app)
    if words and words[0] in getattr(program, "commands", {}):
        program, words = program.commands[words[0]], words[1:]
    with program.make_context("penstock", list(words), resilient_parsing=False):
        pass


@pytest.mark.parametrize("page", [pytest.param(p, id=p.name) for p in PAGES])
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    """Relative links point at files that exist, anchors at headings that exist."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.relative_to(ROOT)}: {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in _anchors(linked), f"{page.relative_to(ROOT)}: {target}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
