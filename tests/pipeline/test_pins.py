"""Pins: written whole or not at all, found again, never silently replaced."""

import os

import pytest

from penstock.base.durable import create_file, write_file
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.matching import SnapshotRef
from penstock.pipeline.pins import Pin, Pins, query_id

REF = SnapshotRef("/snapshots", 3, 17)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "metadata").write_text('{"id": "q"}')
    return tmp_path


def pin(batch: int, now: int = 5) -> Pin:
    return Pin("q", batch, REF, now)


def refuse() -> Pin:
    raise AssertionError("a replay must not make a new pin")


def test_a_pin_is_made_once_and_found_by_the_replay(checkpoint):
    made, replayed = Pins(checkpoint).find_or_make(4, lambda: pin(4))
    assert (made, replayed) == (pin(4), False)
    assert Pins(checkpoint).find_or_make(4, refuse) == (pin(4), True)


def test_a_pin_survives_its_journey_through_json():
    assert Pin.from_json(pin(9).to_json(), "9.json") == pin(9)


def test_a_crash_before_it_has_its_name_leaves_no_pin(checkpoint, monkeypatch):
    def crash(*_: object) -> None:
        raise OSError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", crash)
        with pytest.raises(OSError, match="crash"):
            Pins(checkpoint).find_or_make(0, lambda: pin(0))
    assert Pins(checkpoint).find(0) is None
    assert Pins(checkpoint).batches() == []
    assert os.listdir(checkpoint / "penstock/batches") == []


def test_a_full_disk_leaves_no_half_a_file(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        create_file(tmp_path / "file", "text")
    assert os.listdir(tmp_path) == []


def test_of_two_drivers_that_pin_the_same_batch_the_first_wins(checkpoint):
    def slow() -> Pin:
        Pins(checkpoint).find_or_make(0, lambda: pin(0, now=1))
        return pin(0, now=2)

    assert Pins(checkpoint).find_or_make(0, slow)[0] == pin(0, now=1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"batch": 0}', '{"format": 3}', '{"format": 1}'])
def test_a_pin_that_penstock_did_not_write_stops_the_pipeline_with_its_path(checkpoint, text):
    Pins(checkpoint).find_or_make(0, lambda: pin(0))
    (checkpoint / "penstock/batches/0.json").write_text(text)
    with pytest.raises(PipelineError, match=r"batches/0\.json (is damaged|has format)"):
        Pins(checkpoint).find_or_make(0, refuse)


def test_old_pins_go_but_never_those_of_batches_that_are_not_committed(checkpoint):
    pins = Pins(checkpoint)
    for number in range(10):
        pins.find_or_make(number, lambda number=number: pin(number))
    pins.prune(committed=6, kept=3)
    assert pins.batches() == [4, 5, 6, 7, 8, 9]
    pins.prune(committed=6, kept=0)
    assert pins.batches() == [7, 8, 9]


def test_a_pin_of_another_query_is_not_taken_for_ours(checkpoint):
    Pins(checkpoint).find_or_make(0, lambda: pin(0))
    (checkpoint / "metadata").write_text('{"id": "another"}')
    with pytest.raises(PipelineError, match="of another query"):
        Pins(checkpoint).find_or_make(0, refuse)


@pytest.mark.parametrize("text", [None, "", "{}", "[]"])
def test_without_its_id_a_query_does_not_run(tmp_path, text):
    if text is not None:
        (tmp_path / "metadata").write_text(text)
    with pytest.raises(PipelineError, match="metadata"):
        query_id(tmp_path)


def test_pins_in_an_object_store(s3_folder):
    write_file(path_of(s3_folder) / "metadata", '{"id": "q"}')
    pins = Pins(s3_folder)
    assert pins.batches() == []
    made = Pin("q", 7, REF, 5)
    assert pins.find_or_make(7, lambda: made) == (made, False)
    assert pins.find_or_make(7, lambda: pytest.fail("it is there")) == (made, True)
    assert pins.batches() == [7]
    pins.prune(committed=7, kept=0)
    assert pins.find(7) is None


def test_pins_are_kept_where_that_is_possible():
    assert str(path_of("file:/data/x", "checkpoint")) == "/data/x"
    with pytest.raises(PipelineError, match="checkpoint ftp://host/x: Penstock can't keep files"):
        Pins("ftp://host/x")
