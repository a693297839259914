"""Fixtures that several rooms share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

# Short lives: code that is compiled quickly beats code that runs fast.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
