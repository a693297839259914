"""The cache of compiled kernels: nobody else may write to it."""

import os
import subprocess
import sys

import pytest

from penstock.base.jit import _CacheFile, kernel, problem_of_cache


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


def test_two_processes_that_compile_at_once_never_get_each_others_code(tmp_path, monkeypatch):
    """One saves a signature while the other does; both have read the index before. At worst one compiles again."""
    one, other = (_CacheFile(str(tmp_path), "f-1.py311", "stamp") for _ in range(2))
    write = one._save_data

    def interrupted(name, data):
        other.save("float64", "code for float64")
        write(name, data)

    monkeypatch.setattr(one, "_save_data", interrupted)
    monkeypatch.setattr(other, "_load_index", dict)
    one.save("int64", "code for int64")
    fresh = _CacheFile(str(tmp_path), "f-1.py311", "stamp")
    assert fresh.load("int64") in (None, "code for int64")
    assert fresh.load("float64") in (None, "code for float64")


def test_kernels_are_kept_so():
    """By the file that any number of processes may add to."""

    @kernel
    def double(x):
        return 2 * x

    assert type(double._cache._cache_file) is _CacheFile
