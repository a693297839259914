"""Files in an object store, and their copies on this machine: a real S3 server, and processes that are killed."""

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.remote_publisher import die, publish_and_die
from tests.sizes import PATIENCE

from penstock.base import local_copies
from penstock.base.array_folders import read_folder, write_folder
from penstock.base.durable import age_of, create_file, delete_folder, replace_file, write_file
from penstock.base.errors import PipelineError, SnapshotError
from penstock.base.local_copies import map_copy
from penstock.base.locations import path_of
from penstock.base.remote_paths import RemotePath, paths_in
from penstock.matching import SnapshotStore, open_matcher


@pytest.fixture(params=["mounted", "s3", "renaming"])
def folder(request, tmp_path):
    """A folder of each kind: the same is expected of all. `renaming` is how HDFS is written to, on a local disk."""
    match request.param:
        case "mounted":
            return tmp_path
        case "s3":
            return path_of(request.getfixturevalue("s3_folder"))
    return RemotePath(f"file://{tmp_path}")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder of copies."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def copies(cache):
    """The names of the copies, without drafts and locks."""
    return sorted(path.name for path in cache.iterdir() if not path.name.startswith("."))


# --- the same wherever it is --------------------------------------------------------------------


def test_files_are_what_was_written_last(folder):
    path = folder / "file.json"
    assert not path.exists()
    assert create_file(path, "one")
    assert not create_file(path, "two")
    assert path.read_bytes() == b"one"
    replace_file(path, "three")
    write_file(folder / "other.json", b"four")
    assert [p.name for p in paths_in(folder, "*.json")] == ["file.json", "other.json"]
    assert path.read_text("utf-8") == "three"
    assert 0 <= age_of(path) < PATIENCE
    path.unlink()
    path.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    assert [p.name for p in paths_in(folder, "*")] == ["other.json"]


def test_folders_go_with_all_that_is_in_them(folder):
    inner = folder / "a" / "b"
    assert not inner.is_dir()
    assert paths_in(inner, "*") == []
    write_folder(inner, {}, {})
    assert inner.is_dir()
    delete_folder(folder / "a")
    delete_folder(folder / "a")
    assert not inner.is_dir()


def test_arrays_come_back(folder):
    arrays = {"n": np.arange(100_000), "none": np.empty(0, np.int32), "x": np.eye(3)}
    checksum = write_folder(folder / "arrays", {"size": 3}, arrays)
    header, found = read_folder(folder / "arrays", checksum)
    assert header == {"size": 3}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(SnapshotError, match="isn't the one that was published"):
        read_folder(folder / "arrays", checksum + 1)


def test_a_file_without_content_isnt_there_yet(folder):
    if isinstance(folder, Path):
        pytest.skip("a mounted file system renames")
    write_file(folder / "empty", b"")
    assert not (folder / "empty").exists()
    assert paths_in(folder, "*") == []
    with pytest.raises(FileNotFoundError):
        (folder / "empty").read_bytes()


@pytest.mark.parametrize("uri", ["http://host/x", "dbfs://x/y", "S3://x"])
def test_other_uris_are_refused(uri):
    with pytest.raises(PipelineError, match="can't keep files there"):
        path_of(uri)


# --- copies on this machine ---------------------------------------------------------------------


def test_a_copy_is_fetched_once_and_again_if_it_is_damaged(s3_folder, cache, monkeypatch):
    fetched = []
    download = RemotePath.download
    monkeypatch.setattr(
        RemotePath, "download", lambda self, out: (fetched.append(self), download(self, out))
    )
    folder = path_of(s3_folder) / "arrays"
    write_folder(folder, {}, {"n": np.arange(1000)})
    for _ in range(2):
        assert read_folder(folder)[1]["n"].sum() == 499500
    assert len(fetched) == 1
    copy = cache / copies(cache)[0]
    data = bytearray(copy.read_bytes())
    data[77] ^= 1
    copy.unlink()
    copy.write_bytes(data)
    assert read_folder(folder)[1]["n"].sum() == 499500
    assert len(fetched) == 2
    copy.unlink()
    copy.write_bytes(data[:100])
    assert read_folder(folder)[1]["n"].sum() == 499500


def test_what_is_damaged_in_the_store_is_refused(s3_folder, cache):
    folder = path_of(s3_folder) / "arrays"
    write_folder(folder, {}, {"n": np.arange(1000)})
    data = bytearray((folder / "arrays").read_bytes())
    data[77] ^= 1
    (folder / "arrays").write_bytes(bytes(data))
    with pytest.raises(SnapshotError, match="checksum is wrong"):
        read_folder(folder)
    (folder / "arrays").write_bytes(bytes(data[:500]))
    with pytest.raises(SnapshotError, match="torn: 500 bytes"):
        read_folder(folder)
    (folder / "arrays").unlink()
    with pytest.raises(SnapshotError, match="missing"):
        read_folder(folder)
    assert all(len(path.read_bytes()) == 8000 for path in map(cache.joinpath, copies(cache)))


def test_a_folder_that_is_written_again_is_fetched_again(s3_folder, cache):
    folder = path_of(s3_folder) / "arrays"
    for number in (1, 2):
        delete_folder(folder)
        write_folder(folder, {}, {"n": np.array([number])})
        assert read_folder(folder)[1]["n"].tolist() == [number]


def test_what_was_used_last_stays_and_so_does_what_is_mapped(s3_folder, cache, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "300")
    folder = path_of(s3_folder)

    def fetch(name):
        return map_copy(folder / name, "1", 100)

    for name in "abcd":
        write_file(folder / name, name.encode() * 100)
    held = fetch("a")
    fetch("b")
    fetch("c")
    fetch("b")
    fetch(
        "d"
    )  # there is room for three, and c is the one that nobody has used for longest, but for a
    kept = {(cache / name).read_bytes()[:1] for name in copies(cache)}
    assert kept == {b"a", b"b", b"d"}
    assert held.tobytes() == b"a" * 100
    del held
    fetch("c")
    assert {(cache / name).read_bytes()[:1] for name in copies(cache)} == {b"b", b"c", b"d"}


def test_more_is_kept_than_allowed_if_all_is_mapped(s3_folder, cache, monkeypatch, caplog):
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "150")
    folder = path_of(s3_folder)
    held = []
    for name in "ab":
        write_file(folder / name, name.encode() * 100)
        held.append(map_copy(folder / name, "1", 100))
    assert len(copies(cache)) == 2
    assert "all are in use" in caplog.text


# --- processes that are killed ------------------------------------------------------------------

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.remote_publisher"])


def _killed(work, *arguments):
    """Run a function in a process of its own; whether it was killed."""
    process = _CONTEXT.Process(target=work, args=arguments)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_a_publisher_that_is_killed_leaves_nothing_half(s3_folder, cache):
    strikes = 0
    while True:
        folder = path_of(s3_folder) / str(strikes)
        if not _killed(publish_and_die, str(folder), strikes):
            break
        store = SnapshotStore(folder)
        latest = store.latest()
        if latest is not None:
            assert open_matcher(latest).match({"price": 6}) == [1]
        strikes += 1
    assert strikes >= 3 * 4  # owner, arrays, manifest, version


def _fetch_and_die(folder, cache):
    os.environ["PENSTOCK_CACHE"] = cache
    download = RemotePath.download

    def half(path, out):
        download(path, out)
        out.flush()
        out.truncate(out.tell() // 2)
        die()

    RemotePath.download = half
    read_folder(path_of(folder))


def test_a_reader_that_is_killed_leaves_no_half_copy(s3_folder, cache):
    folder = path_of(s3_folder)
    write_folder(folder, {}, {"n": np.arange(1000)})
    assert _killed(_fetch_and_die, s3_folder, str(cache))
    assert copies(cache) == []
    assert len(list(cache.glob(".draft-*"))) == 1
    assert read_folder(folder)[1]["n"].sum() == 499500
    assert list(cache.glob(".draft-*")) == []


def _fetch(folder, cache, log):
    os.environ["PENSTOCK_CACHE"] = cache
    download = RemotePath.download

    def counted(path, out):
        with open(log, "a", encoding="utf-8") as file:
            file.write("fetched\n")
        download(path, out)

    RemotePath.download = counted
    assert read_folder(path_of(folder))[1]["n"].sum() == 499500


def test_processes_that_read_at_once_fetch_once(s3_folder, cache, tmp_path):
    write_folder(path_of(s3_folder), {}, {"n": np.arange(1000)})
    log = tmp_path / "log"
    arguments = (s3_folder, str(cache), str(log))
    readers = [_CONTEXT.Process(target=_fetch, args=arguments) for _ in range(4)]
    for one in readers:
        one.start()
    for one in readers:
        one.join(PATIENCE)
    assert [one.exitcode for one in readers] == [0] * 4
    assert log.read_text().splitlines() == ["fetched"]
    assert local_copies._folder() == cache
