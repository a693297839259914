"""The session for one machine: what it needs is said before Spark says it worse."""

import os
import sys

import pytest

from penstock.base.errors import PipelineError
from penstock.pipeline import local_session, session


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """A Java whose version a test chooses."""

    def install(release: str | None) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text("#!/bin/sh\n")
        (tmp_path / "bin/java").chmod(0o755)
        if release is not None:
            (tmp_path / "release").write_text(release)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install


def test_without_java_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match="Java 17 or later, and there is none"):
        session.check_java("local[*]")


def test_a_java_home_without_a_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=f"JAVA_HOME is {tmp_path}"):
        session.check_java("local[*]")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_a_java_that_is_too_old_is_named(fake_java, version):
    fake_java(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    with pytest.raises(PipelineError, match="set JAVA_HOME to a newer one"):
        session.check_java("local[*]")


@pytest.mark.parametrize("release", ['JAVA_VERSION="17"', 'JAVA_VERSION="21.0.2"', "", None])
def test_a_java_that_is_new_enough_or_does_not_tell_will_do(fake_java, release):
    fake_java(release)
    session.check_java("local[*]")


@pytest.mark.spark
class TestRunning:
    def test_workers_run_the_python_of_the_driver(self, spark):
        def python(batches):
            import pyarrow as pa

            for _ in batches:
                yield pa.record_batch({"path": [sys.executable]})

        (row,) = spark.range(1).mapInArrow(python, "path string").collect()
        assert os.path.samefile(row.path, sys.executable)

    @pytest.mark.skipif(sys.platform != "linux", reason="workers are forked before they import")
    def test_workers_begin_with_what_they_need_imported(self, spark):
        """And don't look for garbage in it after each task."""

        def state(batches):
            import gc

            import pyarrow as pa

            for _ in batches:
                loaded = "penstock.pipeline.frames" in sys.modules
                yield pa.record_batch({"loaded": [loaded], "left_out": [gc.get_freeze_count()]})

        (row,) = spark.range(1).mapInArrow(state, "loaded boolean, left_out long").collect()
        assert row.loaded
        assert row.left_out > 100_000

    def test_a_session_that_is_there_is_returned_as_it_is(self, spark):
        before = spark.conf.get("spark.sql.shuffle.partitions")
        assert local_session("local[7]", config={"spark.sql.shuffle.partitions": "9"}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == before

    def test_times_without_a_zone_are_utc(self, spark):
        (row,) = spark.sql("select unix_micros(timestamp'1970-01-01 00:00:01') as t").collect()
        assert row.t == 1_000_000
