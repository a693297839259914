"""Fixtures that several rooms share."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

# Short lives: code that is compiled quickly beats code that runs fast.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One classic Spark session for the whole run: starting Spark costs more than most tests."""
    from penstock.pipeline import local_session

    folder = tmp_path_factory.mktemp("spark")
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
