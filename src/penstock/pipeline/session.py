"""A Spark session with defaults that suit one machine.

The command line, the demo and the tests start Spark here; a cluster job brings its own session (`spark-submit`).
Three of the defaults aren't obvious:

- The interpreter of workers. By default Spark runs the first `python3` in the PATH, not the interpreter that started
  it.
- The address. By default Spark binds to the address that the host name resolves to. On a laptop that changes with the
  network, and `local-cluster` can't reach itself there. Loopback always works.
- The logging file. Without one Spark logs to the terminal before a program can set a log level.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.base.errors import PipelineError
from penstock.pipeline import worker_daemon

# Spark recognises a micro-batch that `stop` interrupted by a regular expression over the error's text, which overflows
# the usual stack if the text is long.
_DEEP_STACKS = "-Xss16m"
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",  # a time without a zone is UTC, as in the language
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20480",  # two blocks of the batch engine
    # What workers raise is worded by us either way. But if this is true, Spark wants workers of two sorts, for stateful
    # stages and for all others: that would take a second daemon with all imports, 150 MB.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
_ON_ONE_MACHINE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # Events reach Python workers through a socket in the file system: a quarter less overhead than through TCP.
    "spark.python.unix.domain.socket.enabled": "true",
}
if sys.platform == "linux":  # elsewhere, a process with these libraries loaded can't be forked
    _ON_ONE_MACHINE["spark.python.daemon.module"] = worker_daemon.__name__


def local_session(
    master: str = "local[*]",
    name: str = "penstock",
    config: Mapping[str, str] | None = None,
    *,
    quiet: bool = True,
) -> SparkSession:
    """A session on this machine; on a cluster or a Spark Connect server (`sc://host`) if `master` names one.

    A session that this process has already is returned as it is. Under `spark-submit`, what was submitted decides
    where it runs. `config` is added to the defaults and wins over them. `quiet` keeps Spark's log to errors.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    settings = {**_EVERYWHERE, **(config or {})}
    if master.startswith("sc://"):
        return _built(SparkSession.builder.remote(master), name, settings)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_submitted():
        return _built(SparkSession.builder, name, settings)
    check_java(master)
    if master.startswith("local"):
        settings = {**_ON_ONE_MACHINE, **settings}
        os.environ.setdefault("SPARK_LOCAL_IP", settings["spark.driver.host"])
    if quiet:
        given = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = (
            f"{_DEEP_STACKS} -Dlog4j2.configurationFile={log_file()} {given}".strip()
        )
    return _built(SparkSession.builder.master(master), name, settings)


def is_submitted() -> bool:
    """Whether spark-submit started this process, and has chosen master, resources and environment."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_connect(spark: SparkSession) -> bool:
    """Whether a session speaks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _built(builder: SparkSession.Builder, name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def log_file() -> Path:
    """The logging file that keeps a JVM quiet."""
    return Path(str(resources.files("penstock.pipeline") / "log4j2-quiet.properties"))


def check_java(master: str) -> None:
    """Say what is missing before PySpark says `JAVA_GATEWAY_EXITED`. A Connect server has its own Java: no check."""
    if master.startswith("sc://"):
        return
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "there is none"
        raise PipelineError(
            f"Spark needs Java 17 or later, and {where}: "
            "install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        )
    major = _java_version(java)
    if major is not None and major < 17:
        raise PipelineError(
            f"Spark needs Java 17 or later, and {java} is {major}: set JAVA_HOME to a newer one"
        )


def _java_version(java: str) -> int | None:
    """The version in the `release` file of a Java; None if there is no such file. The Java isn't run."""
    release = Path(java).resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("JAVA_VERSION="):
            parts = line.partition("=")[2].strip('"').split(".")
            number = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
            return int(number) if number.isdigit() else None
    return None
