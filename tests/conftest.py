"""Fixtures that several rooms share, the order in which files are run, and how long a run is."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from tests.sizes import LONG

# Short lives: code that is compiled quickly beats code that runs fast.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SHARED = "spark"  # the group of the tests that share one session
CONNECT = "connect"  # of those with Connect servers, which all take the same port


def pytest_report_header() -> str:
    return f"sizes: {LONG} x (PENSTOCK_LONG)"


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups as soon as its own turn comes
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes run the tests; a group stays in one of them, and the longest groups come first."""
    groups = {item: _group(item) for item in items}
    slow = {groups[item] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (groups[item] != SHARED, groups[item] not in slow, groups[item]))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item]))
    if LONG > 1:
        tests = {
            getattr(item.obj, "__func__", item.obj): item for item in items if hasattr(item, "obj")
        }
        for test, item in tests.items():  # parametrised tests share one function
            _multiply_examples(test, item)


def _group(item: pytest.Item) -> str:
    """Tests that share a Spark session; a file whose tests share a process of their own; a room, and so its kernels."""
    if item.get_closest_marker("connect"):
        return CONNECT
    if "spark" in getattr(item, "fixturenames", ()):
        return SHARED
    path = item.path.relative_to(item.config.rootpath)
    if item.get_closest_marker("slow"):
        return str(path)
    return "/".join(path.parts[: 3 if path.parts[0] == "src" else 2])


def _multiply_examples(test: Any, item: pytest.Item) -> None:
    """Hypothesis has no setting for "more of each": what a test says of itself is read and written anew."""
    if hasattr(test, "_hypothesis_state_machine_class"):
        machine: Any = item.cls  # type: ignore[attr-defined]
        machine.settings = _more(machine.settings)
    elif hasattr(test, "hypothesis"):
        test._hypothesis_internal_use_settings = _more(test._hypothesis_internal_use_settings)


def _more(own: settings) -> settings:
    return settings(own, max_examples=LONG * own.max_examples)


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
            "spark.driver.extraJavaOptions": QUICK,
        },
    )
    yield session
    session.stop()
