"""The output of commands: data on standard output, everything else on standard error, and errors as exit codes.

A script reads standard output and the exit code; a person reads both streams. So results go to standard output, in a
form that can be cut and piped; remarks, progress and errors go to standard error. Colours appear only on a terminal,
unless NO_COLOR is set (Rich sees to that).

    0    done; for `explain`: it matches
    1    refused or failed; for `explain`: it doesn't match
    2    the command line is wrong; for `explain`: any error, as with grep
    130  stopped by Ctrl-C         141  the reader of our output has gone
"""

import functools
import json
import logging
import os
import select
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import typer

REFUSED = 1
USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

debugging: ContextVar[bool] = ContextVar("debugging", default=False)
"""Whether errors are to be shown with their traceback: `--debug`. Set anew by each call of the program."""

_REFUSALS_SHOWN = 10  # the others are only in a file

_RAISED = "[USER_RAISED_EXCEPTION] "  # how Spark marks messages of raise_error

P = ParamSpec("P")
R = TypeVar("R")

_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"
}
_ON_ONE_LINE = {**_CONTROLS, 9: " ", 10: " "}


def report_errors(errors: int = REFUSED) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn the errors of a command into one message and an exit code; `errors` is the code for Penstock's own."""

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                result = command(*args, **kwargs)
                sys.stdout.flush()
                return result
            except BrokenPipeError:
                _forget_output()
                raise typer.Exit(BROKEN_PIPE) from None
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except Exception as error:  # whatever it is, a user gets a message and not a traceback
                if debugging.get():
                    raise
                raise typer.Exit(_complain(error, errors)) from None

        return run

    return decorate


def _complain(error: Exception, code: int) -> int:
    from penstock.base.errors import LeaseError, PenstockError, SubscriptionErrors

    if isinstance(error, SubscriptionErrors):
        complain(refusals_text(error.errors))
        return code
    if isinstance(error, PenstockError):
        complain(str(error))
        return USAGE if isinstance(error, LeaseError) else code
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror}")
        return code
    if type(error).__module__.startswith("pyspark."):
        complain(_spark_reason(error))
        return code
    complain(
        f"unexpected {type(error).__name__}: {error}\n(penstock --debug … shows where it comes from)"
    )
    return code


def refusals_text(errors: Any) -> str:
    """A message with refused subscriptions: id, place in the filter, reason. If they are many, a file has all."""
    lines = [f"{count(len(errors), 'subscription')} refused"]
    for sid, error in errors[:_REFUSALS_SHOWN]:
        lines.append(f"subscription {sid}: {error}" if sid is not None else str(error))
    if len(errors) > _REFUSALS_SHOWN:
        lines.append(f"and {len(errors) - _REFUSALS_SHOWN:,} more: all are in {_keep(errors)}")
    return "\n".join(lines)


def _keep(errors: Any) -> str:
    """Write all refusals to a file; returns its name."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="penstock-refused-", suffix=".jsonl", delete=False
    ) as file:
        for sid, error in errors:
            row = {"id": sid, "reason": error.reason, "hint": error.hint, "filter": error.text}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return file.name


def _spark_reason(error: Exception) -> str:
    """The line that says what went wrong, out of a Java stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if _RAISED in line:  # raised by a plan of ours, and worded for people
            return line.partition(_RAISED)[2].partition(" SQLSTATE: ")[0]
    ours = [line for line in lines if line.startswith(("penstock.base.errors.", "details = "))]
    return "Spark: " + (ours[-1:] or lines or [type(error).__name__])[0]


def put(line: str) -> None:
    """Write a line of data."""
    sys.stdout.write(line + "\n")


def put_bytes(lines: bytes) -> None:
    """Write lines of data, as they are, at once."""
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(lines.decode(errors="replace"))
    else:
        binary.write(lines)
        binary.flush()


def check_reader() -> None:
    """Raise BrokenPipeError if the reader of our output has gone, even if the command has nothing to write yet."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # standard output isn't a file
        return
    waiting = select.poll()
    waiting.register(output, 0)
    if any(found & (select.POLLERR | select.POLLHUP) for _, found in waiting.poll(0)):
        raise BrokenPipeError


def put_json(value: Mapping[str, Any]) -> None:
    """Write a line of JSON."""
    put(json.dumps(value, ensure_ascii=False, default=str))


def put_row(*cells: object) -> None:
    """Write a line of cells with tabs between them. Tabs and line breaks in cells become blanks."""
    put("\t".join(visible(str(cell), one_line=True) for cell in cells))


def say(text: str, style: str = "") -> None:
    """Print a remark."""
    _remark((visible(text), style))


def warn(text: str) -> None:
    """Print a warning, which doesn't stop the command."""
    _remark(("warning: ", "bold yellow"), visible(text))


def complain(text: str) -> None:
    """Print why a command failed."""
    _remark(("penstock: ", "bold red"), visible(text))


class _Said(logging.Handler):
    """Prints warnings of the library like this program's own."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


_said = _Said(logging.WARNING)


def show_warnings() -> None:
    """Print the library's warnings from now on. The log of Py4J, Spark's bridge to Java, isn't for people."""
    logging.getLogger("penstock").addHandler(_said)
    logging.getLogger("py4j").addHandler(logging.NullHandler())


def _remark(*parts: str | tuple[str, str]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(*parts))


def count(number: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count(1, "event"), count(2000, "match", "matches")
    ('1 event', '2,000 matches')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration_text(milliseconds: float) -> str:
    """A length of time, as people write it. The latency of events from an archive may be years.

    >>> duration_text(84.4), duration_text(8_440.2), duration_text(3.6e6), duration_text(84_408_620_170)
    ('84 ms', '8.4 s', '60 min', '977 days')
    """
    for unit, size in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:,.0f} {unit}"
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 1000 else f"{milliseconds:.0f} ms"


def visible(text: str, *, one_line: bool = False) -> str:
    """Text of others, made safe for a terminal: control characters are shown, not obeyed.

    >>> visible("red \\x1b[31malert")
    'red \\\\x1b[31malert'
    >>> visible("a\\nb", one_line=True)
    'a b'
    """
    return text.translate(_ON_ONE_LINE if one_line else _CONTROLS)


def read_text(text: str, what: str) -> str:
    """An argument, or what it points to: `@file` is the content of a file, `-` that of standard input.

    >>> read_text("price > 5", "FILTER")
    'price > 5'
    """
    try:
        if text == "-":
            return sys.stdin.read()
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:
                return file.read()
    except OSError as error:
        raise typer.BadParameter(f"{text[1:]}: {error.strerror}", param_hint=what) from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{text}: not UTF-8 ({error})", param_hint=what) from None
    return text


def _forget_output() -> None:
    """Discard buffered output, since its reader has gone: it must not raise again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # standard output isn't a file: nothing to redirect
        pass
    finally:
        os.close(nowhere)
