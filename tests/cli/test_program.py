"""The program as a Unix user meets it: streams, exit codes, pipes, colours, signals."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock
from tests.sizes import PATIENCE

import penstock as library
from penstock import Subscriptions
from penstock.cli import list_command

COMMANDS = (
    "subscribe", "update", "unsubscribe", "renew", "resync", "list", "load", "sweep", "match", "run", "explain", "who",
    "plan", "warm-up",
    "demo",
)  # fmt: skip
PROGRAM = [sys.executable, "-c", "from penstock.cli import main; main()"]


def _real(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*PROGRAM, *words], capture_output=True, text=True, timeout=PATIENCE, **options
    )


def test_version(penstock: Penstock) -> None:
    """--version prints the library's version."""
    result = penstock("--version")
    assert (result.exit_code, result.stdout) == (0, f"penstock {library.__version__}\n")


def test_help_names_every_command(penstock: Penstock) -> None:
    """--help lists the commands, and each has its own with an example."""
    result = penstock("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert name in result.stdout
        shown = penstock(name, "--help").stdout
        assert name == "demo" or f"penstock {name}" in shown.partition("Examples:")[2]
        assert "<bool>" not in shown  # a flag takes no value


def test_a_reader_that_has_gone_is_noticed_before_there_is_something_to_say() -> None:
    """So that a command that works for long ends at once."""
    program = (
        "import sys, time; from penstock.cli.terminal import check_reader; check_reader();"
        "sys.stdin.read(); check_reader()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.close()
        _, said = running.communicate(timeout=PATIENCE)
    assert said.strip().endswith("BrokenPipeError")


def test_warm_up_takes_the_rooms_that_there_are(penstock: Penstock) -> None:
    """Anything else is a wrong command line."""
    result = penstock("warm-up", "kitchen")
    assert result.exit_code == 2
    assert "filters, operators, views, joins" in result.stderr


def test_a_wrong_command_line_is_exit_code_2(penstock: Penstock) -> None:
    """Unknown commands and options, and missing arguments; all on stderr."""
    for words in (("subscrib",), ("list", "--colour"), ("subscribe", "alice")):
        result = penstock(*words)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr


def test_an_unexpected_error_is_one_message(penstock: Penstock, monkeypatch) -> None:
    """A defect of ours is no traceback in a user's face, unless --debug asks for it."""

    def broken(url: str) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(list_command, "open_there", broken)
    result = penstock("list")
    assert result.exit_code == 1
    assert "unexpected ZeroDivisionError: oops" in result.stderr
    assert isinstance(penstock("--debug", "list").exception, ZeroDivisionError)
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")
    assert isinstance(penstock("list").exception, ZeroDivisionError)


def test_ctrl_c_is_exit_code_130(penstock: Penstock, monkeypatch) -> None:
    """An interrupted command says nothing more."""

    def interrupted(url: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(list_command, "open_there", interrupted)
    result = penstock("list")
    assert (result.exit_code, result.output) == (130, "")


def test_streams_and_exit_codes_of_the_real_program(tmp_path: Path) -> None:
    """Data on stdout, errors on stderr without a traceback, exit code 1."""
    done = _real("subscribe", "alice", "price > 5", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith('{"id": 1, ')
    refused = _real("subscribe", "alice", "price >", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("penstock: ")
    assert "Traceback" not in refused.stderr


def test_a_pipe_that_closes_is_no_error(tmp_path: Path) -> None:
    """`penstock list | head -1` ends quietly, as SIGPIPE would end it."""
    with Subscriptions.open(tmp_path / "penstock.db") as subs:
        import pyarrow as pa

        many = 5000
        subs.load(pa.table({"subscriber": ["alice"] * many, "filter": ["price > 5"] * many}))
    program = subprocess.Popen(
        [*PROGRAM, "list"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stdout.readline().startswith(b"1\t")
    program.stdout.close()
    assert program.stderr is not None
    assert program.stderr.read() == b""
    assert program.wait(PATIENCE) == 141


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_are_for_terminals(tmp_path: Path, no_color: bool) -> None:
    """On a terminal the verdict is coloured, with NO_COLOR it isn't."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    if no_color:
        environment["NO_COLOR"] = "1"
    words = ("explain", "--filter", "price > 5", "--event", '{"price": 6}')
    program = subprocess.Popen(
        [*PROGRAM, *words], cwd=tmp_path, stdout=writer, env=environment, close_fds=True
    )
    os.close(writer)
    assert program.wait(PATIENCE) == 0
    shown = os.read(reader, 10_000)
    os.close(reader)
    assert b"the filter matches" in shown
    assert (b"\x1b[32m" in shown) != no_color  # green


def test_the_command_line_starts_without_what_few_commands_need() -> None:
    """Nobody waits for PySpark, or for a compiler, who only asks for help."""
    heavy = {"pyspark", "numba", "pyarrow", "pandas", "sqlglot", "sqlalchemy", "asyncio"}
    code = f"import sys, penstock.cli; print(*{heavy} & sys.modules.keys())"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ran.stdout.split() == []
