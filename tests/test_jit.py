"""The cache of compiled kernels: nobody else may write to it."""

import os
import subprocess
import sys

import pytest

from penstock.base.jit import problem_of_cache


def test_a_folder_that_is_not_there_is_made_for_us_alone(tmp_path):
    folder = tmp_path / "above" / "cache"
    assert problem_of_cache(folder) is None
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o777, "mode 777"), (0o770, "mode 770"), (0o755, None)]
)
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, mode, expected):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert (expected or "None") in str(problem_of_cache(tmp_path / "cache"))


def test_a_file_is_no_cache(tmp_path):
    (tmp_path / "cache").write_text("")
    assert problem_of_cache(tmp_path / "cache") is not None


def test_a_cache_that_is_not_ours_is_warned_of_and_left_empty(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    program = "import numba, penstock.base.jit; print(repr(numba.config.CACHE_DIR))"
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert found.stdout.strip() == "''"
    assert "may be written to by others" in found.stderr
