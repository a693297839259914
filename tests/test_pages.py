"""Pages as tests: what is wrong on a page is found."""

import contextlib
from pathlib import Path

import pytest
from tests.pages import run_page
from tests.shell import prints, shell_in


def run(folder: Path, text: str, **places: str) -> None:
    page = folder / "page.md"
    page.write_text(text)
    with contextlib.chdir(folder), shell_in(folder) as shell:
        run_page(page, shell, places)


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("a", "a\nb\n", False),
        ("a … c", "a b c\n", True),
        ("a … c", "a\nb c\n", False),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("…\nd", "d\n", True),
        ("a.c", "abc\n", False),
    ],
)
def test_output_is_compared(expected: str, output: str, same: bool) -> None:
    """`…` is anything within a line, and a line of its own any number of lines."""
    assert prints(expected, output) == same


def test_files_commands_and_python_share_a_folder(tmp_path: Path) -> None:
    """A file of the page is there for commands, what they leave is there for Python; places are put in."""
    run(
        tmp_path,
        "```yaml a.yaml\nat: HOST\n```\n"
        "```sh run\ncat a.yaml | tee b.yaml\n```\n```output\nat: HOST\n```\n"
        "```python\nopen('b.yaml').read()  # -> 'at: here\\n'\n```\n",
        HOST="here",
    )


def test_the_program_runs_in_this_process_with_its_streams_and_exit_code(tmp_path: Path) -> None:
    """Pipes see its standard output only; standard input reaches it; settings do, too."""
    run(
        tmp_path,
        "```sh run\n"
        "export PENSTOCK_REGISTRY=sqlite:///mine.db\n"
        "echo 'price > 5' | penstock subscribe alice - 2> said | wc -l\n"
        "penstock explain --id 1 --event '{\"price\": 1}' > why; echo $?\n"
        "ls *.db\n"
        "```\n```output\n2\n1\nmine.db\n```\n",
    )


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    """Where no output is shown, its exit code counts."""
    with pytest.raises(AssertionError, match="exit code 1"):
        run(tmp_path, "```sh run\nls nothing || exit 1\n```\n")


def test_other_output_is_found(tmp_path: Path) -> None:
    """With the page, the line, and what is printed instead."""
    with pytest.raises(AssertionError, match=r"page\.md:4: it prints\nhello"):
        run(tmp_path, "```sh run\necho hello\n```\n```output\nhi\n```\n")


def test_what_goes_on_is_waited_for_and_interrupted(tmp_path: Path) -> None:
    """It runs beside the commands that follow; lines that it never prints are found when it has ended."""
    live = "```sh live\nwhile ! test -e go; do sleep 0.1; done; echo gone; {}\n```\n```sh run\ntouch go\n```\n"
    run(tmp_path, live.format("sleep 1000") + "```output live\ngone\n```\n")
    with pytest.raises(AssertionError, match="is not in"):
        run(tmp_path, live.format("true") + "```output live\nnever\n```\n")
