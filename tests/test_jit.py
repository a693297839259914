"""The cache of compiled kernels: nobody else may write to it."""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.base import array_kernels, kernel_cache
from penstock.base.jit import kernel
from penstock.base.kernel_cache import _CacheFile, problem_of_cache


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
    program = "import numba, penstock.base.jit as j; j.kernel(lambda x: x); print(repr(numba.config.CACHE_DIR))"
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


# --- who may write nowhere ----------------------------------------------------------------------

NOBODY = 65534
KERNELS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from penstock.base.decimals import trim_space
from penstock.base.kernel_watchers import watch_kernels
made = []
watch_kernels(made.append)
assert trim_space(np.frombuffer(b" a ", np.uint8), 0, 3) == (1, 2)
print(len(made))
"""


@pytest.fixture
def package():
    """The sources that a kernel needs, where anybody may read and nobody write."""
    top = Path(tempfile.mkdtemp())  # not in pytest's folder, which others can't enter
    top.chmod(0o755)
    shutil.copytree(
        Path(kernel_cache.__file__).parent,
        top / "penstock" / "base",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (top / "penstock" / "__init__.py").touch()
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    yield top
    shutil.rmtree(top)


AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    # Python itself may lie in the home folder of another user.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def _run(package: Path, before: tuple[str, ...] = AS_NOBODY) -> subprocess.CompletedProcess:
    """Calls a kernel, as a user who may write nothing but temporary files; prints how many were compiled for it."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(package / "home"),
        "TMPDIR": str(package / "tmp"),
    }
    return subprocess.run(
        [*before, sys.executable, "-c", KERNELS, str(package)],
        capture_output=True,
        text=True,
        env=environment,
        cwd="/",
    )


def _may_change_user() -> bool:
    try:
        return subprocess.run([*AS_NOBODY, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


only_as_root = pytest.mark.skipif(not _may_change_user(), reason="needs setpriv and its rights")


@only_as_root
def test_without_a_home_kernels_are_kept_in_a_private_temporary_folder(package):
    """The second process compiles nothing."""
    first, second = (_run(package) for _ in range(2))
    assert (int(first.stdout) > 0, second.stdout.strip()) == (True, "0"), first.stderr
    folder = package / "tmp" / f"penstock-kernels-{NOBODY}"
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, NOBODY)
    assert first.stderr == ""


@only_as_root
def test_where_kernels_can_not_be_kept_they_are_compiled_with_a_line_of_warning(package):
    """Somebody else has made the temporary folder: nothing is read from there, and nothing written."""
    folder = package / "tmp" / f"penstock-kernels-{NOBODY}"
    folder.mkdir()
    folder.chmod(0o777)
    done = _run(package)
    assert int(done.stdout) > 0, done.stderr
    assert done.stderr.count("no folder for compiled kernels can be written to") == 1
    assert not any(folder.iterdir())


@only_as_root
def test_kernels_that_an_image_brings_are_used_by_whoever_runs_it(package):
    """Compiled by the owner of the sources, beside them; read by a user who may not write there."""
    assert int(_run(package, ()).stdout) > 0
    done = _run(package)
    assert done.stdout.strip() == "0", done.stderr


def test_a_kernel_is_pickled_by_its_name():
    """A copy by value, which Spark's tasks would carry to workers, would have no cache."""
    given = array_kernels.longest_list
    assert pickle.loads(pickle.dumps(given)) is given
    assert len(pickle.dumps(given)) < 100


def test_a_kernel_that_has_no_name_is_pickled_by_value():
    @kernel
    def add_one(x):
        return x + 1

    assert pickle.loads(pickle.dumps(add_one)).py_func(1) == 2
