"""Bits that flip in any file that Penstock reads again: the same answer comes out, or an error of ours.

Never a wrong match, a subscription that comes back, or an error that a pipeline doesn't expect.
"""

import json
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.matching.test_snapshots import Source, forget
from tests.sizes import FLIPS, SEED
from tests.views.test_plan_file import small

from penstock.base.errors import PenstockError
from penstock.joins.statistics import Statistics
from penstock.matching import SnapshotRef, SnapshotStore, open_matcher
from penstock.operators.learned import Learned, Tally, latest
from penstock.pipeline.joins import snapshots as join_snapshots
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.snapshots import Difference, JoinSnapshots
from penstock.pipeline.pins import Pin, Pins
from penstock.views.plan_file import read_plan, write_plan

SCHEMA = {"a": "int", "s": "string", "t": "array<string>", "d": "double"}
EVENTS = pa.record_batch(
    {
        "a": pa.array([1, 2, 3, None, 7]),
        "s": ["x", "xyz", "q", None, "other"],
        "t": pa.array([["u"], ["v", "w"], [], None, ["u", "v"]], pa.list_(pa.string())),
        "d": [0.5, 1.5, None, -3.0, 99.0],
    }
)
FILTERS = [
    "a > 1 AND s = 'x'",
    "s LIKE '%y%' OR a IN (1, 3, 7)",
    "array_contains(t, 'u') AND d < 50",
    "a = d OR d BETWEEN 1 AND 2",
    "nowhere = 1",
    "a <> 2 AND NOT (s LIKE 'o%')",
]


class Subscriptions:
    """A snapshot with a base, an overlay, cancelled subscriptions, and some that were refused."""

    def __init__(self, folder: Path) -> None:
        source, store = Source(), SnapshotStore(folder)
        for sid, text in enumerate(FILTERS):
            source.put(sid, text)
        store.publish(source, SCHEMA)
        source.remove(1)
        source.put(2, "a = 3")
        source.put(9, "also_nowhere = 1")
        self.source, self.store, self.ref = source, store, store.publish(source, SCHEMA).ref

    def read(self):
        """What is matched, and who is refused. (`publish` makes again what is damaged.)"""
        forget()
        found = open_matcher(self.ref).match_batch(EVENTS).to_pylist()
        return found, [(sid, str(error)) for sid, error in self.store._errors(self.content())]

    def content(self):
        return self.store._versions.read(self.ref.version)


class PinFiles:
    """The pins of a pipeline."""

    def __init__(self, folder: Path) -> None:
        self.pins = Pins(folder)
        for number in range(3):
            pin = Pin("query", number, SnapshotRef("/snapshots", 3, 17), 5)
            self.pins.find_or_make(number, lambda pin=pin: pin)

    def read(self):
        return [self.pins.find(number) for number in range(3)]


class Joins:
    """Snapshots of select-joins, with some that are set aside, and a plan."""

    def __init__(self, folder: Path) -> None:
        self.snapshots = JoinSnapshots(folder)
        come = {7: "SELECT * FROM A", 8: "SELECT * FROM B"}
        plan = Statistics({"A": 7}, {"A": 0.5}, {("A", "x"): (b"a", b"b")}, {})
        self.snapshots.publish("me", 1, Difference(come, set_aside={3: "no"}))
        aside = {3: "no", 4: "neither"}
        self.snapshots.publish("me", 2, Difference({9: "SELECT * FROM C"}, [7], aside, {}, plan))

    def read(self):
        join_snapshots._read_set_aside.cache_clear()
        join_snapshots._read_statistics.cache_clear()
        return self.snapshots.latest(), self.snapshots.subscriptions(2)


class State:
    """The log of a bucket of joins, as it lies in the state store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        log = BucketLog(self, self)
        for n in range(3):
            log.append(bytes([n]) * 20, 1, lambda: (b"", 0))
        log.close()

    def get(self):
        path = self.folder / "head"
        return (path.read_text(errors="replace"),) if path.exists() else None

    def update(self, value):
        (self.folder / "head").write_text(value[0])

    def getValue(self, key):  # noqa: N802
        path = self.folder / str(key[0])
        return (path.read_bytes(),) if path.exists() else None

    def updateValue(self, key, value):  # noqa: N802
        (self.folder / str(key[0])).write_bytes(value[0])

    def read(self):
        log = BucketLog(self, self)
        return log.head.visits, log.since(None)


class Experience:
    """What was learned of operators: what can't be read counts as nothing learned, and is logged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tally = Tally.of(["crowd(image) > 50", "b"], np.array([3.0, 1.0]), np.array([4.0, 2.0]))
        Learned(tally, tally).save(folder / "learned")

    def read(self):
        known = latest(self.folder)
        if not known:
            raise PenstockError("nothing learned")
        return known.predicates.get(["crowd(image) > 50", "b"])[0].tolist(), len(known.invocations)


class ViewPlan:
    """Which view is fed from which: a damaged plan would tell views what isn't theirs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plan.json"
        write_plan(small(), self.path)

    def read(self):
        plan = read_plan(self.path)
        inputs = [plan.inputs(view) for view in range(len(plan.texts))]
        return plan.texts, inputs, plan.site.tolist(), plan.latency.tolist(), plan.notes


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A flipped bit, mostly; or a stretch of zeros, a piece that is missing, or one too many."""
    at = rng.randrange(len(content) + 1)
    match rng.randrange(8):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes(rng.randrange(1, 64)) + content[at + 64 :]
        case 2:
            return content[:at] + content[at : at + 9] + content[at:]
        case _:
            at = min(at, len(content) - 1)
            return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


KINDS = [Subscriptions, PinFiles, Joins, State, Experience, ViewPlan]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_whatever_flips_gives_the_same_answer_or_our_error(tmp_path, kind):
    tmp_path.joinpath("metadata").write_text("{}")
    world = kind(tmp_path)
    expected = world.read()
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.name != "metadata")
    rng = random.Random(f"{SEED} {kind.__name__}")
    refused = 0
    for _ in range(FLIPS):
        path = rng.choice(files)
        content = path.read_bytes()
        if not content:
            continue
        path.write_bytes(damaged(content, rng))
        try:
            assert world.read() == expected, path
        except PenstockError:
            refused += 1
        finally:
            path.write_bytes(content)
    assert refused > FLIPS // 3
    assert world.read() == expected


def test_an_error_names_the_file_and_says_what_to_do(tmp_path):
    world = Subscriptions(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "owner.json" and "0000000001" not in path.name:
            content = path.read_bytes()
            path.write_bytes(content[:-2])
            with pytest.raises(PenstockError, match=re.escape(str(path))) as raised:
                world.read()
            assert "start the pipeline or the job again" in str(raised.value).lower()
            path.write_bytes(content)


def test_documents_that_are_spelled_otherwise_say_the_same(tmp_path):
    """A checksum is of what is said: whoever looks at a version with an editor that formats it does no harm."""
    world = Subscriptions(tmp_path)
    expected = world.read()
    for path in (tmp_path / "versions").iterdir():
        path.write_text(json.dumps(json.loads(path.read_text()), indent=2, sort_keys=True))
    assert world.read() == expected
