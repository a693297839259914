"""A shell for the commands on pages: bash in a folder of its own, with `penstock` on its path.

Pipes, redirections and here-documents are bash's, as for a reader. `penstock` is a stand-in that hands its words and
its standard input over a socket to this process. The program runs here, in the Spark session that is there already: to
start one for each command would take most of the time. Only what goes on until it is stopped, as `penstock run`,
`penstock serve`, `penstock follow` and `penstock broker` do, is the program itself, in a process of its own.
"""

import contextlib
import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest import mock

from pyspark.sql import SparkSession
from tests.sizes import PATIENCE

_SETTINGS = tuple(
    f"PENSTOCK_{name}" for name in ("REGISTRY", "SERVER", "KEY", "TICKET", "DEBUG", "OPERATORS")
)
_BESIDE = Path(sys.executable).parent
_STAND_IN = """#!{python} -IS
import json, os, socket, sys

name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
goes_on = words[:1] in (["run"], ["serve"], ["follow"])
goes_on = goes_on or (words[:1] == ["broker"] and words[1:2] not in (["status"], ["publish"]))
if name == "penstock" and goes_on and not {{"--once", "--check", "--json-schema"}} & set(words):
    os.execv({program!r}, [{program!r}, *words])
given = {{name: value for name, value in os.environ.items() if name in {settings}}}
asked = {{
    "name": name, "words": words, "stdin": sys.stdin.read(),
    "folder": os.getcwd(), "environment": given,
}}
with socket.socket(socket.AF_UNIX) as to:
    to.connect({address!r})
    with to.makefile("rw", encoding="utf-8") as file:
        file.write(json.dumps(asked) + "\\n")
        file.flush()
        for line in file:
            stream, text = json.loads(line)
            if stream == 0:
                sys.exit(text)
            os.write(stream, text.encode())
"""


Program = Callable[[list[str]], Any]
"""Gets its words; reads, prints and exits as a program does."""


@dataclass(frozen=True)
class Done:
    """What commands printed, on both streams as they came, and the exit code of the last."""

    output: str
    code: int


class Shell:
    """Runs commands in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own = Path(tempfile.mkdtemp(prefix="penstock-shell-"))  # sockets need short paths
        self._programs: dict[str, Program] = {}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._own / "socket"))
        self._socket.listen()
        self._socket.settimeout(0.05)
        self.provide("penstock", penstock)
        kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
        path = os.pathsep.join([str(self._own), str(_BESIDE), os.environ["PATH"]])
        self._environment = {**kept, "PATH": path, "NO_COLOR": "1"}
        self._live: list[Live] = []

    def provide(self, name: str, program: Program) -> None:
        """A program that the commands find, and that runs in this process."""
        self._programs[name] = program
        text = _STAND_IN.format(
            python=sys.executable,
            program=str(_BESIDE / name),
            settings=_SETTINGS,
            address=str(self._own / "socket"),
        )
        (self._own / name).write_text(text)
        (self._own / name).chmod(stat.S_IRWXU)

    def run(self, commands: str) -> Done:
        """Run commands to their end; `penstock` runs in this thread, which may be the one that gets signals."""
        with tempfile.TemporaryFile() as output:
            bash = self._bash(commands, output)
            while bash.poll() is None:
                with contextlib.suppress(TimeoutError):
                    connection, _ = self._socket.accept()
                    with connection:
                        connection.settimeout(None)
                        _answer(connection, self._programs)
            output.seek(0)
            return Done(output.read().decode(), bash.returncode)

    def start(self, commands: str) -> None:
        """Start commands that go on until they are interrupted."""
        self._live.append(Live(self._bash(commands, subprocess.PIPE)))

    def wait_for(self, lines: list[str]) -> None:
        """Wait until what was started last has printed these lines in this order, among others."""
        self._live[-1].wait_for(lines)

    def interrupt(self) -> None:
        """End what was started, as Ctrl-C does."""
        while self._live:
            self._live.pop().interrupt()

    def close(self) -> None:
        self.interrupt()
        self._socket.close()
        for file in self._own.iterdir():
            file.unlink()
        self._own.rmdir()

    def _bash(self, commands: str, output: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["bash", "-c", commands],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Live:
    """Commands that go on."""

    def __init__(self, bash: "subprocess.Popen[bytes]") -> None:
        self._bash = bash
        self._output = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self._bash.stdout or ():
            self._output += line.decode()

    def wait_for(self, lines: list[str]) -> None:
        pattern = re.compile("(?s:.*?)".join(f"^{as_pattern(line)}$" for line in lines), re.M)
        deadline = time.monotonic() + PATIENCE
        while pattern.search(self._output) is None:
            ended = not self._reader.is_alive() and pattern.search(self._output) is None
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"{lines} is not in\n{self._output}")
            time.sleep(0.05)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGINT)
        self._bash.wait(timeout=PATIENCE)
        self._reader.join()


@contextlib.contextmanager
def shell_in(folder: Path) -> Iterator[Shell]:
    """A shell, whose live commands are stopped at the end."""
    shell = Shell(folder)
    try:
        yield shell
    finally:
        shell.close()


@contextlib.contextmanager
def spark_in(folder: Path, spark: SparkSession) -> Iterator[None]:
    """Relative paths are those of a folder to Spark, too, which else goes by where its JVM was started."""
    hadoop = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    files = hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())  # type: ignore[attr-defined]
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(folder)))
    try:
        yield
    finally:
        files.setWorkingDirectory(before)


def as_pattern(line: str) -> str:
    """A regular expression for a line in which `…` is anything."""
    return "[^\n]*".join(re.escape(part) for part in line.split("…"))


def prints(expected: str, output: str) -> bool:
    """Whether this is what was printed; a line that is `…` alone is any number of lines."""
    lines = expected.rstrip().split("\n")
    pattern = "".join("(?s:.*)" if line == "…" else f"{as_pattern(line)} *\n" for line in lines)
    return re.fullmatch(pattern, output.rstrip() + "\n") is not None


# --- programs in this process -----------------------------------------------------------------


def penstock(words: list[str]) -> None:
    from penstock.cli import app

    app(words, prog_name="penstock")


def _answer(connection: socket.socket, programs: dict[str, Program]) -> None:
    """Run the program that a stand-in asks for, and send what it prints as it comes."""
    with connection.makefile("rw", encoding="utf-8") as file:
        asked = json.loads(file.readline())
        code: Any = 0
        with (
            contextlib.chdir(asked["folder"]),
            contextlib.redirect_stdout(_Sent(file, 1)),
            contextlib.redirect_stderr(_Sent(file, 2)),
            mock.patch("sys.stdin", io.StringIO(asked["stdin"])),
            mock.patch.dict(os.environ, asked["environment"]),
            mock.patch("sys.path", [*sys.path]),  # --operators makes the folder importable
        ):
            try:
                programs[asked["name"]](asked["words"])
            except SystemExit as end:
                code = end.code or 0
        file.write(json.dumps([0, code]) + "\n")


class _Sent(io.TextIOBase):
    """A stream that is sent on at once, in whole lines of the protocol."""

    _lock = threading.Lock()

    def __init__(self, file: IO[str], number: int) -> None:
        self._file = file
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._file.write(json.dumps([self._number, text]) + "\n")
            self._file.flush()
        return len(text)
