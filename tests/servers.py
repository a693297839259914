"""Real servers for tests: started on a free loopback port, stopped at the end.

`postgresql()` gives the URL of a PostgreSQL server of its own, in a temporary folder. It uses the
programs it finds (PATH, `/usr/lib/postgresql/*/bin`), installs them with apt where that is
possible, and else raises `NoServer` with the reason.

`nats()` gives a NATS server with JetStream of its own, which can be killed and started again; it is found or installed
in the same way.

`Connect` is a Spark Connect server, which can be killed and started again. `connect_port()` is held while one runs that
a session for `local` starts, with a port that it can't be told.

`kafka()` gives a Kafka broker of its own, which can be killed and started again, and the jars that Spark reads it with.
Maven fetches both, from wherever it is set up to fetch; without Maven, or without the jars, `NoServer` is raised with
the reason.

`s3()` gives the address of an S3 server of its own (moto, which keeps all in memory). pip fetches it into a folder of
its own the first time: it needs an older python-dateutil than we have.
"""

import base64
import contextlib
import fcntl
import hashlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO

import pyspark
from tests.faults.lives import Life
from tests.pipeline.elsewhere import environment

from penstock.pipeline import worker_daemon
from penstock.pipeline.session import log_file

START_SECONDS = 600  # however busy the machine is
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
        port = free_port()
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
            server.send_signal(signal.SIGQUIT)  # it stops at once, if it has started
            server.wait(timeout=START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of initdb and postgres; root may install them."""
    found = _find_programs()
    if found is not None:
        return found
    install("postgresql")
    found = _find_programs()
    if found is None:
        raise NoServer("PostgreSQL was installed, but its programs can't be found")
    return found


def install(package: str) -> None:
    """Install a Debian package, if we are root."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise NoServer(
            f"{package} is not installed, and only root with apt-get could install it here"
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wait = ["-o", f"DPkg::Lock::Timeout={INSTALL_SECONDS}"]  # for programs that aren't of the tests
    with (Path(tempfile.gettempdir()) / f"penstock-install-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of a run take turns
        for command in (["apt-get", "update"], ["apt-get", *wait, "install", "-y", package]):
            try:
                done = subprocess.run(
                    command, env=quiet, capture_output=True, text=True, timeout=INSTALL_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise NoServer(f"{' '.join(command)} took more than {INSTALL_SECONDS} s") from None
            if done.returncode:
                raise NoServer(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")


def _find_programs() -> Path | None:
    def version(folder: Path) -> tuple[int, ...]:
        return tuple(int(n) for n in folder.parent.name.split(".") if n.isdigit())

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.insert(0, Path(on_path).resolve().parent)
    needed = ("initdb", "postgres", "pg_isready")
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


def free_port() -> int:
    """A port of loopback that nobody has at this moment.

    It isn't one that the system gives to connections: on a busy machine one of them would have it before the server.
    """
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


# --- NATS ---------------------------------------------------------------------------------------


class Nats:
    """A NATS server: where it is, and its life."""

    def __init__(self, program: str, folder: Path, arguments: tuple[str, ...]) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._log = folder / "log"
        self._command = [
            *(program, "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(folder)),
            *arguments,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe,
            ):
                if probe.recv(5) == b"INFO ":
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"nats-server didn't start: {self._log.read_text()[-500:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """As the power would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=START_SECONDS)


@contextlib.contextmanager
def nats(*arguments: str, jetstream: bool = True) -> Iterator[Nats]:
    """A NATS server without streams."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    if shutil.which("nats-server", path=places) is None:
        install("nats-server")
    program = shutil.which("nats-server", path=places)
    if program is None:
        raise NoServer("nats-server was installed, but can't be found")
    folder = Path(tempfile.mkdtemp(prefix="penstock-nats-"))
    server = Nats(program, folder, (*arguments, *(["-js"] if jetstream else [])))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


# --- Spark Connect ------------------------------------------------------------------------------


class Connect:
    """A Spark Connect server on this machine: where it is, and its life."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        self._log = log
        settings = {
            "spark.master": "local[4]",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self.port,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_file()}",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": 2,
            "spark.python.daemon.module": worker_daemon.__name__,
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        self._command = [
            *(str(program), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *[
                part
                for setting in settings.items()
                for part in ("--conf", "=".join(map(str, setting)))
            ],
            "spark-internal",
        ]
        self._life: Life | None = None

    def start(self) -> None:
        """Start it, when the processes of an earlier life have ended, and wait until it answers."""
        if self._life is not None:
            self._life.await_end()
        variables = {**environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._life = Life(self._command, self._log, variables)
        self._life.await_progress(self._answers)

    def kill(self) -> None:
        """The server; its Python processes end by themselves."""
        assert self._life is not None
        self._life.process.kill()
        self._life.process.wait(START_SECONDS)

    def close(self) -> None:
        """The server and all its processes."""
        if self._life is not None:
            self._life.kill()

    @property
    def is_alive(self) -> bool:
        """Whether it hasn't ended."""
        return self._life is not None and self._life.process.poll() is None

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-4000:]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False


@contextlib.contextmanager
def connect_port() -> Iterator[None]:
    """The port that a Connect server for `local` takes: runs of the tests on one machine take turns."""
    with (Path(tempfile.gettempdir()) / f"penstock-connect-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- Kafka --------------------------------------------------------------------------------------

_KAFKA = "3.9.2"  # whose clients Spark's Kafka source is made for
_POOL = "2.13.1"  # of commons-pool2, likewise
_TOKENS = (
    "4.0.0"  # later ones can't be had from every mirror; only delegation tokens need more of it
)
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


class Kafka:
    """A broker: where it is, what a Spark session needs to read from it, and its life."""

    def __init__(self, folder: Path, java: str) -> None:
        jars = _kafka_jars(folder)
        self.address = f"127.0.0.1:{_configure_kafka(folder)}"
        self.spark_jars = tuple(jar for jar in jars if _is_for_spark(jar))
        self._folder, self._settings = folder, folder / "server.properties"
        self._command = [
            *(java, *_QUICK, f"-Dlog4j.configuration=file:{folder}/log4j.properties"),
            *("-cp", os.pathsep.join(map(str, jars))),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        cluster = base64.urlsafe_b64encode(b"penstock-tests-0").decode().rstrip("=")
        program = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", self._settings]
        _run(None, [*self._command, *program])

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*self._command, "kafka.Kafka", self._settings],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self._folder,
            )
        _wait_for_kafka(self._process, log)

    def kill(self) -> None:
        """As the power would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=START_SECONDS)


@contextlib.contextmanager
def kafka() -> Iterator[Kafka]:
    """A Kafka broker that makes topics of two partitions when they are first written to."""
    java = _java()
    folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
    try:
        broker = Kafka(folder, java)
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        raise NoServer("Kafka needs Java, and there is none")
    return java


def _kafka_jars(folder: Path) -> list[Path]:
    """The jars of the broker and of Spark's Kafka source, in Maven's own store."""
    needed = [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version("pyspark"), _ALONE),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", _TOKENS, _ALONE),
        ("org.apache.commons", "commons-pool2", _POOL, _ALONE),
        ("org.apache.kafka", "kafka_2.13", _KAFKA, ""),
        ("org.slf4j", "slf4j-reload4j", "1.7.36", ""),
    ]
    return _jars(folder, "Kafka", needed)


_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def _jars(folder: Path, whose: str, needed: list[tuple[str, str, str, str]]) -> list[Path]:
    """Jars and what they need, in Maven's own store: group, name, version, and what is left out of that."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NoServer(f"{whose}'s jars come from Maven, and there is no mvn")
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{number}</version>{rest}</dependency>\n"
        for group, name, number, rest in needed
    )
    (folder / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>penstock</groupId><artifactId>tests</artifactId><version>1</version>"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )
    found = folder / "classpath"
    command = [
        *(maven, "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:build-classpath"),
        *("-DincludeScope=runtime", f"-Dmdep.outputFile={found}"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NoServer(f"mvn took more than {INSTALL_SECONDS} s to fetch {whose}'s jars") from None
    if done.returncode or not found.exists():
        problem = (done.stdout + done.stderr).strip() or f"it exited with {done.returncode}"
        raise NoServer(f"mvn can't fetch {whose}'s jars: {problem.splitlines()[0][:500]}")
    return [Path(jar) for jar in found.read_text().strip().split(os.pathsep)]


def _is_for_spark(jar: Path) -> bool:
    return jar.name.startswith(("spark-", "kafka-clients-", "commons-pool2-"))


def _configure_kafka(folder: Path) -> int:
    """One node that is broker and controller, without ZooKeeper: its port."""
    port, controller = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": folder / "data",
        "num.partitions": 2,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    (folder / "server.properties").write_text(lines)
    (folder / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, out\n"
        "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%p %m%n\n"
    )
    return port


def _wait_for_kafka(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while "Kafka Server started" not in log.read_text(errors="replace"):
        if server.poll() is not None or time.monotonic() > deadline:
            raise NoServer(f"Kafka didn't start: {log.read_text(errors='replace')[-1000:]}")
        time.sleep(0.1)


# --- S3 -----------------------------------------------------------------------------------------

_MOTO = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")


@contextlib.contextmanager
def s3() -> Iterator[str]:
    """An S3 server that has one bucket, `penstock`, and takes any credentials: its URL."""
    packages = _moto()
    port = free_port()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(packages)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for_port(server, port, log)
            url = f"http://127.0.0.1:{port}"
            urllib.request.urlopen(urllib.request.Request(f"{url}/penstock", method="PUT")).close()
            yield url
        finally:
            server.kill()
            server.wait(timeout=START_SECONDS)


_HADOOP = "3.5.0"  # as Spark has
_AWS = "2.35.4"  # what that was made with
_OF_SPARK = ("/io/netty/", "/org/slf4j/", "/org/apache/httpcomponents/", "/commons-")


def s3a_jars(folder: Path) -> list[Path]:
    """What Spark needs to reach S3 itself: a few parts of Amazon's bundle, which is thirty times as large."""
    parts = ("s3", "s3-transfer-manager", "sts", "apache-client")
    needed = [
        ("org.apache.hadoop", "hadoop-aws", _HADOOP, _ALONE),
        *[("software.amazon.awssdk", part, _AWS, "") for part in parts],
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", _ALONE),
    ]
    found = _jars(folder, "S3", needed)
    return [jar for jar in found if not any(part in str(jar) for part in _OF_SPARK)]


def _moto() -> Path:
    """The folder of the packages, of this user and for these versions."""
    named = hashlib.sha256(" ".join((sys.version, *_MOTO)).encode()).hexdigest()[:12]
    home = Path.home() / ".cache" / "penstock-tests"
    home.mkdir(parents=True, exist_ok=True)
    folder = home / f"moto-{named}"
    with (home / "moto.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # runs of the tests on one machine take turns
        if folder.is_dir():
            return folder
        draft = Path(tempfile.mkdtemp(dir=home))
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(draft), *_MOTO]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            if done.returncode:
                raise NoServer(f"pip can't fetch moto: {done.stderr.strip()[-500:]}")
            draft.rename(folder)
        except subprocess.TimeoutExpired:
            raise NoServer(f"pip took more than {INSTALL_SECONDS} s to fetch moto") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def _wait_for_port(server: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            raise NoServer(f"moto didn't start: {log.read().decode(errors='replace')[-500:]}")
        time.sleep(0.05)
