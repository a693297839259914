"""Select-joins on Spark Connect: the same calls, the same results."""

import pytest

from .elsewhere import found_by

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return found_by("joins_connect_script", tmp_path_factory.mktemp("joins-connect"))


def test_views_equal_duckdb(found):
    """Both subscribers, the one that was there and the one that came later, have what DuckDB finds."""
    assert found["session"].startswith("pyspark.sql.connect")
    assert found["views"] == [True, True]


def test_tables_at_rest(found):
    """A batch tells each subscriber the tuples of both tables."""
    assert found["batch"] == [["Reviews", 1, 2], ["Stocks", 1, 2]]
