"""The code blocks of README.md and of docs run, so that what a reader copies works."""

import re
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pages import PAGES, ROOT, Block, blocks, run_page
from tests.servers import free_port
from tests.shell import shell_in, spark_in

# These run where there is the Spark that they need: pipeline/kafka_script has Kafka's jars, cluster_script a cluster.
_ELSEWHERE = {"saved-searches.md", "daily-batch.md"}


def _needs_spark(page: Path) -> bool:
    pattern = {"python": r"\bspark\b", "sh": r"penstock (match|run)\b"}
    return any(b.runs and re.search(pattern[b.language], b.text) for b in blocks(page))


def _pages(*, with_spark: bool) -> list[Any]:
    runnable = [p for p in PAGES if p.name not in _ELSEWHERE and any(b.runs for b in blocks(p))]
    return [pytest.param(p, id=p.stem) for p in runnable if _needs_spark(p) == with_spark]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Executes a page in an empty folder: its Python, and its commands."""
    monkeypatch.chdir(tmp_path)
    served = free_port()
    places = {
        "8080": str(free_port()),
        "7447": str(free_port()),
        "7448": str(free_port()),
        "penstock serve": f"penstock serve --port {served}",
        "localhost:8400": f"localhost:{served}",
    }

    def run(page: Path, **names: Any) -> None:
        with shell_in(tmp_path) as shell, warnings.catch_warnings():
            warnings.simplefilter("ignore", category=UserWarning)
            run_page(page, shell, places, **names)

    return run


@pytest.mark.parametrize("page", _pages(with_spark=False))
def test_pages_run(page: Path, run: Callable[..., None]) -> None:
    """What is shown after `# ->` is the value, and what is shown as output is printed."""
    run(page)


@pytest.mark.spark
@pytest.mark.parametrize("page", _pages(with_spark=True))
def test_pages_run_on_spark(
    page: Path, run: Callable[..., None], spark: SparkSession, tmp_path: Path
) -> None:
    """As above, in the session that the tests share; a live `penstock run` has its own."""
    with spark_in(tmp_path, spark):
        run(page, spark=spark)


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
        : next((i for i, w in enumerate(words) if w in ("|", ">", "2>", "&", "&&")), len(words))
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
