"""Real servers for tests: started on a free loopback port, stopped at the end.

`postgresql()` gives the URL of a PostgreSQL server of its own, in a temporary folder. It uses the
programs it finds (PATH, `/usr/lib/postgresql/*/bin`), installs them with apt where that is
possible, and else raises `NoServer` with the reason.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 60
INSTALL_SECONDS = 300


class NoServer(Exception):
    """Why there is no server to test against."""


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL server with one empty database: its URL."""
    programs = _programs()
    user = _unprivileged_user()
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgresql-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        port = _free_port()
        _run(
            user,
            [
                programs / "initdb",
                *("--pgdata", folder / "data", "--username", "penstock", "--auth", "trust"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
        )
        server = _start(user, programs, folder, port)
        try:
            _wait(programs, server, port, folder)
            yield f"postgresql://penstock@127.0.0.1:{port}/postgres"
        finally:
            _run(
                user, [programs / "pg_ctl", "stop", "-D", folder / "data", "-m", "immediate", "-w"]
            )
            server.wait(timeout=START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of initdb and postgres; root may install them."""
    found = _find_programs()
    if found is not None:
        return found
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise NoServer(
            "PostgreSQL is not installed, and only root with apt-get could install it here"
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "postgresql"]):
        try:
            done = subprocess.run(
                command, env=quiet, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NoServer(f"{' '.join(command)} took more than {INSTALL_SECONDS} s") from None
        if done.returncode:
            raise NoServer(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
    found = _find_programs()
    if found is None:
        raise NoServer("PostgreSQL was installed, but its programs can't be found")
    return found


def _find_programs() -> Path | None:
    def version(folder: Path) -> tuple[int, ...]:
        return tuple(int(n) for n in folder.parent.name.split(".") if n.isdigit())

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.insert(0, Path(on_path).resolve().parent)
    needed = ("initdb", "postgres", "pg_ctl", "pg_isready")
    return next((f for f in folders if all((f / name).exists() for name in needed)), None)


def _unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root: who runs it instead. None: the user we are."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServer("PostgreSQL doesn't run as root, and there is no user postgres or nobody")


def _start(user: str | None, programs: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [
                *(programs / "postgres", "-D", folder / "data", "-p", str(port)),
                *("-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
        )


def _wait(programs: Path, server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise NoServer(f"PostgreSQL didn't start: {(folder / 'log').read_text()[-500:]}")
        time.sleep(0.05)


def _run(user: str | None, command: list[str | Path]) -> None:
    group = None if user is None else pwd.getpwnam(user).pw_gid
    done = subprocess.run(
        command,
        user=user,
        group=group,
        extra_groups=None if user is None else [],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    if done.returncode:
        raise NoServer(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
