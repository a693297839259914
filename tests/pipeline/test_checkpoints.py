"""Checkpoints: one driver at a time, synced in time, and what a power cut has torn is taken back or named."""

import subprocess
import sys
import zlib

import pytest
from tests.sizes import PATIENCE

from penstock.base.errors import PipelineError
from penstock.pipeline.checkpoint_locks import hold
from penstock.pipeline.checkpoints import SyncedTree, begin, is_torn, recover

LOG = b'v1\n{"x":1}\n-'


def write(path, data=LOG):
    """A file as Spark leaves it: with Hadoop's checksums beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    sums = b"".join(
        zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512)
    )
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\0\0\2\0" + sums)
    return path


@pytest.fixture
def checkpoint(tmp_path):
    """Two micro-batches have begun, the first is committed."""
    write(tmp_path / "metadata", b'{"id": "q"}')
    for number in (0, 1):
        write(tmp_path / f"sources/0/{number}")
        write(tmp_path / f"offsets/{number}")
        begin(tmp_path, number)
        if number == 0:
            write(tmp_path / "commits/0")
    return tmp_path


def names(checkpoint):
    files = [p for p in checkpoint.rglob("*") if p.is_file() and "penstock" not in p.parts]
    return sorted(str(p.relative_to(checkpoint)) for p in files if not p.name.startswith("."))


def test_a_checkpoint_that_was_not_interrupted_is_left_alone(checkpoint):
    write(checkpoint / "commits/1")
    before = names(checkpoint)
    assert recover(checkpoint) == []
    assert names(checkpoint) == before


def test_batches_that_had_not_begun_are_planned_anew(checkpoint):
    """Their offsets may be there, and the log of the source that they refer to lost."""
    write(checkpoint / "offsets/2")
    write(checkpoint / "sources/0/2")
    recover(checkpoint)
    assert "offsets/2" not in names(checkpoint)
    assert "sources/0/2" in names(checkpoint)


def test_what_was_planned_of_a_query_that_never_began_goes(tmp_path):
    """Also the state, which Spark refuses to find when it begins; not that of a query that has begun."""
    for name in ("metadata", "offsets/0", "sources/0/0", "state/0/_metadata/metadata"):
        write(tmp_path / name)
    recover(tmp_path)
    assert names(tmp_path) == ["metadata", "sources/0/0"]
    for name in ("offsets/0", "state/0/_metadata/metadata"):
        write(tmp_path / name)
    begin(tmp_path, 0)
    assert recover(tmp_path) == []


@pytest.mark.parametrize("name", ["commits/1", "sources/0/2", "sources/0/2.compact"])
@pytest.mark.parametrize("kept", [0, 5])
def test_what_is_torn_after_the_last_sync_goes(checkpoint, name, kept):
    before = names(checkpoint)
    write(checkpoint / name).write_bytes(LOG[:kept])
    recover(checkpoint)
    assert names(checkpoint) == before
    assert not list(checkpoint.rglob(".2*.crc"))


@pytest.mark.parametrize("name", ["offsets/1", "metadata"])
def test_what_is_torn_though_it_was_synced_is_named(checkpoint, name):
    (checkpoint / name).write_bytes(b"")
    with pytest.raises(PipelineError, match=rf"{name} is torn.*restore the checkpoint"):
        recover(checkpoint)


def test_commits_that_another_penstock_made_count(checkpoint):
    """One that doesn't know of `begun.json` went on meanwhile: its batches have been delivered."""
    for number in (2, 3):
        write(checkpoint / f"offsets/{number}")
    write(checkpoint / "commits/2")
    recover(checkpoint)
    assert "offsets/2" in names(checkpoint)
    assert "offsets/3" not in names(checkpoint)


def test_an_older_checkpoint_is_left_alone(tmp_path):
    for name in ("metadata", "offsets/0", "commits/0", "offsets/1"):
        write(tmp_path / name)
    assert recover(tmp_path) == []


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 2000])
def test_torn_is_told_by_the_checksums_or_by_the_lines(tmp_path, size):
    data = b'v1\n"' + b"x" * size + b'"'
    path = write(tmp_path / "1", data)
    assert not is_torn(path)
    path.write_bytes(data[:-1])
    assert is_torn(path)
    path.with_name(".1.crc").unlink()
    assert is_torn(path)
    path.write_bytes(data)
    assert not is_torn(path)


def test_a_file_is_synced_once_and_again_if_it_has_changed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        "penstock.pipeline.checkpoints.sync_file", lambda path: synced.append(path.name)
    )
    tree = SyncedTree()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_text("x")
    for _ in range(3):
        tree.sync(tmp_path)
    assert synced == ["a"]
    (tmp_path / "deep/b").write_text("half")
    tree.sync(tmp_path)
    (tmp_path / "deep/b").write_text("all of it")  # in its place, as RocksDB's files are copied
    tree.sync(tmp_path)
    assert synced == ["a", "b", "b"]


def test_what_an_earlier_process_left_is_synced_at_once(checkpoint, monkeypatch):
    """A thousand files that a process finds at its start aren't synced one by one."""
    synced = []
    monkeypatch.setattr(
        "penstock.pipeline.checkpoints.sync_file", lambda path: synced.append(path.name)
    )
    recover(checkpoint)  # as at every start
    write(checkpoint / "offsets/2")
    begin(checkpoint, 2)
    assert synced == []
    write(checkpoint / "offsets/3")
    begin(checkpoint, 3)
    assert sorted(synced) == [".3.crc", "3"]


HOLDER = """
import sys
from pathlib import Path
from penstock.pipeline.checkpoint_locks import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_driver_is_refused_until_the_first_is_gone(tmp_path):
    """It is told who has the checkpoint; the lock goes with its process, however that ends."""
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout.readline() == "held\n"
    with pytest.raises(PipelineError, match=f"in use by process {first.pid} on .* since"):
        hold(tmp_path)
    first.kill()
    first.wait()
    hold(tmp_path).release()


def test_in_one_process_a_lock_is_taken_over_from_a_query_that_has_ended(tmp_path):
    first = hold(tmp_path)
    with pytest.raises(PipelineError, match="in use"):
        hold(tmp_path)
    first.in_use = lambda: False
    second = hold(tmp_path)
    first.release()
    with pytest.raises(PipelineError, match="in use"):
        hold(tmp_path)
    second.release()


WORKER = """
import sys, time
from pathlib import Path
from penstock.pipeline.checkpoint_locks import hold_in_this_process
print("asks", flush=True)
hold_in_this_process(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""
SERVER = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


def test_a_process_of_a_connect_server_holds_its_checkpoint_no_longer_than_the_server_lives(
    tmp_path,
):
    """It waits for the process of the run that it replaces, and ends when its server is killed."""
    replaced = hold(tmp_path)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, WORKER, str(tmp_path), str(PATIENCE)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout.readline() == "asks\n"
    replaced.release()
    assert server.stdout.readline() == "held\n"
    with pytest.raises(PipelineError, match="in use"):
        hold(tmp_path)
    server.kill()
    assert server.stdout.read() == ""  # until the worker has ended, too
    hold(tmp_path).release()
    server.wait()
