"""Places in feeds, and the file that keeps one: whatever is left of it, it is right or refused."""

import random
from pathlib import Path

import pytest
from tests.sizes import FLIPS, SEED

from penstock import PenstockError, SnapshotError
from penstock.server.remote.feed_places import FeedPlace, PlaceFile


def _saved(path: Path, *places: str) -> None:
    kept = PlaceFile(path)
    for place in places:
        kept.save(FeedPlace.read(place))
    kept.close()


def test_the_last_place_is_kept(tmp_path: Path):
    """Also by a file that was opened and closed many times."""
    path = tmp_path / "place"
    for number in range(5):
        _saved(path, f"00{number}", f"00{number}+7")
    assert PlaceFile(path).place == FeedPlace("004", 7)


def test_without_close_it_is_there_too(tmp_path: Path):
    """A process that is killed has saved what it saved."""
    kept = PlaceFile(tmp_path / "place")
    kept.save(FeedPlace("0042", 3))
    assert PlaceFile(tmp_path / "place").place == FeedPlace("0042", 3)


def test_a_torn_write_leaves_the_place_before(tmp_path: Path):
    """However much of the last slot was written."""
    path = tmp_path / "place"
    _saved(path, "0001", "0002")
    before = path.read_bytes()
    _saved(path, "0003")
    after = path.read_bytes()
    for written in range(len(after)):
        path.write_bytes(after[:written] + before[written:])
        assert str(PlaceFile(path).place) in ("0002", "0003"), written


def test_flipped_bits_are_noticed(tmp_path: Path):
    """A damaged file gives a place that was saved, or an error that says what to do."""
    path, dice = tmp_path / "place", random.Random(SEED)
    _saved(path, "0001+1", "0002+2")
    whole = path.read_bytes()
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 1, 40])):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        try:
            found = str(PlaceFile(path).place)
        except SnapshotError as error:
            found = str(error)
        assert found in ("0001+1", "0002+2") or "delete it" in found


def test_another_file_is_refused(tmp_path: Path):
    """It isn't overwritten."""
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(SnapshotError, match="isn't a place in a feed"):
        PlaceFile(path)
    assert path.read_text() == "dear diary"


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path):
    """A folder that isn't there."""
    with pytest.raises(SnapshotError, match="No such file or directory"):
        PlaceFile(tmp_path / "nowhere" / "place")


@pytest.mark.parametrize("text", ["", "+3", "12+", "12+-1", "12+x"])
def test_texts_that_are_no_places(text: str):
    """Each with a word on what would be one."""
    with pytest.raises(PenstockError, match="give an offset"):
        FeedPlace.read(text)
