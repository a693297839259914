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


def test_a_change_of_no_table_is_a_dead_letter(found):
    """Changes of all tables in one stream say of which they are; one of another is told."""
    assert found["dead"] == ["there is no table 'Bonds': there are Stocks, Reviews"]


def test_tables_at_rest(found):
    """A batch tells each subscriber the tuples of both tables."""
    assert found["batch"] == [["Reviews", 1, 2], ["Stocks", 1, 2]]
