"""Fixtures that several rooms share, the order in which files are run, and how long a run is."""

import functools
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession
from tests.sizes import EXAMPLES, LONG
from xdist.scheduler import LoadScopeScheduling

SHARED = (
    "spark"  # the groups of the tests that share a session: those of the pipeline, and all others
)

# `make test` draws the same examples on every machine, so that it fails only for what has changed; `make test-long`
# draws others each time. A failure prints how to draw its example again. Nothing depends on how long an example takes.
settings.register_profile(
    "penstock",
    derandomize=LONG == 1,
    database=None,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("penstock")

_INTERPRETED = " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
_JAVA_FOLDER = "PENSTOCK_TEST_JAVA_FOLDER"
"""Where the JVMs of a run keep their temporary files: one that is killed leaves them."""


def pytest_configure(config: pytest.Config) -> None:
    """Every Spark of the tests has a short life: code that is compiled quickly beats code that runs fast.

    Spark itself generates code only in `make test-long`: for a hundred rows that takes longer than it saves.
    """
    # A shell without job control has what it starts in the background ignore Ctrl-C, and so would all our programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # the processes of xdist take over its environment
        os.environ[_JAVA_FOLDER] = tempfile.mkdtemp(prefix="penstock-")  # sockets need short paths
    archive = Path(sys.prefix) / "spark.jsa"  # of tools/classes
    shared = f" -Xlog:disable -XX:SharedArchiveFile={archive}" if archive.exists() else ""
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={os.environ[_JAVA_FOLDER]}{shared}"
        f"{_INTERPRETED if LONG == 1 else ''}"
    )
    os.environ["PYSPARK_PYTHON"] = str(Path(__file__).parent / "worker_python")
    os.environ["PENSTOCK_TEST_PYTHON"] = sys.executable
    # Workers have the environment with which their Spark was started; the S3 server of the tests takes anything.
    os.environ.update(AWS_ACCESS_KEY_ID="penstock", AWS_SECRET_ACCESS_KEY="penstock")
    os.environ["PENSTOCK_CACHE"] = str(Path(os.environ[_JAVA_FOLDER]) / "cache")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[_JAVA_FOLDER], ignore_errors=True)


def pytest_report_header() -> str:
    return f"sizes: {LONG} x (PENSTOCK_LONG)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups come first, as far as their tests say: what is left at the end is short."""
    groups = {item: group_of(item.nodeid) for item in items}
    slow = {groups[item] for item in items if item.get_closest_marker("slow")}
    sizes = Counter(groups.values())
    order = {
        group: (not group.startswith(SHARED), group not in slow, -size, group)
        for group, size in sizes.items()
    }
    items.sort(key=lambda item: order[groups[item]])
    tests = {
        getattr(item.obj, "__func__", item.obj): item for item in items if hasattr(item, "obj")
    }
    for test, item in tests.items():  # parametrised tests share one function
        _multiply_examples(test, item)


class Groups(LoadScopeScheduling):
    """Several processes run the tests; a group stays in one. (xdist's own groups are marks in names of tests.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    return Groups(config, log)


def group_of(nodeid: str) -> str:
    """Files that share a Spark session; a file whose tests share a process of their own; a room, and so its kernels."""
    return _group(nodeid.partition("::")[0])


@functools.cache
def _group(file: str) -> str:
    text = (Path(__file__).parent.parent / file).read_text(encoding="utf-8")
    if re.search(r"^def \w+\([^)]*\bspark\b", text, re.MULTILINE):
        return f"{SHARED} {file.startswith('tests/pipeline')}"
    if "mark.slow" in text:
        return file
    parts = Path(file).parts
    return "/".join(parts[: 3 if parts[0] == "src" else 2])


def _multiply_examples(test: Any, item: pytest.Item) -> None:
    """Hypothesis has no setting for "more of each": what a test says of itself is read and written anew."""
    if hasattr(test, "_hypothesis_state_machine_class"):
        machine: Any = item.cls  # type: ignore[attr-defined]
        machine.settings = _multiplied(machine.settings)
    elif hasattr(test, "hypothesis"):
        own = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = _multiplied(own)


def _multiplied(own: settings) -> settings:
    return settings(own, max_examples=math.ceil(EXAMPLES * own.max_examples))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One classic Spark session for the whole run: starting Spark costs more than most tests."""
    from penstock.pipeline import local_session

    folder = tmp_path_factory.mktemp("spark")
    # Workers import the operators of the tests by their path.
    paths = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    session = local_session(
        "local[2]",
        "penstock-tests",
        {
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.driver.memory": "2g",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server, host and port."""
    from tests.servers import NoServer, s3

    try:
        with s3() as url:
            yield url.removeprefix("http://")
    except NoServer as reason:
        pytest.skip(f"no S3 server: {reason}")


@pytest.fixture
def s3_folder(s3_server: str) -> str:
    """The URI of a folder there that nobody else has."""
    return f"s3://penstock/{uuid.uuid4().hex}?endpoint_override={s3_server}&scheme=http&region=us-east-1"
