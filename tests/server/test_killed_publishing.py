"""The process that has the inbox is killed, again and again: what it has answered is there, once, in order."""

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from tests.server.publishing_script import MUTE, WRITTEN
from tests.servers import NoServer, kafka
from tests.sizes import LONG, SEED

from penstock.server.publishing.sealed_segments import sealed_segments

ROOT = Path(__file__).parent.parent.parent
KILLS = 12 * LONG
KAFKA_KILLS = 4 * LONG
PRODUCERS = 6
_AT_ONCE = 3  # requests of a producer that are on their way


class Publishers:
    """Producers that repeat what wasn't answered, to a process that is killed at random moments."""

    def __init__(self, command: list[str], seed: int) -> None:
        self.command = command
        self.draw = random.Random(seed)
        self.counts = {
            f"p{n}": [] for n in range(PRODUCERS)
        }  # records of each request, by its number
        self.answered: dict[str, set[int]] = defaultdict(set)
        self.receipts: dict[tuple[str, int], tuple[int, int]] = {}
        self.repeats = 0

    def live(self, *, kill: bool, mute: bool = False) -> None:
        """One life of the process: some requests, and its death at a moment that nobody has chosen.

        `mute`: it dies when all requests are on disk, and nobody was answered.
        """
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **({MUTE: "1"} if mute else {})},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sent = self._send(process)
        if mute:
            for _ in range(sent):
                assert process.stdout.readline().strip() == WRITTEN
            process.kill()
        elif kill:
            for _ in range(self.draw.randrange(sent)):  # some are answered, the rest is on its way
                self._take(process.stdout.readline())
            time.sleep(self.draw.random() * 0.05)
            process.kill()
        process.stdin.close()
        for line in process.stdout:  # answers that it gave before it died
            if line.endswith("\n"):
                self._take(line)
        assert process.wait() == (-9 if kill else 0)

    def _send(self, process: subprocess.Popen[str]) -> int:
        lines = []
        for name, counts in self.counts.items():
            unanswered = [seq for seq in range(len(counts)) if seq not in self.answered[name]]
            for _ in range(_AT_ONCE):
                unanswered.append(len(counts))
                counts.append(self.draw.randrange(1, 5))
            # Everything from the first that wasn't answered on, in order: as a producer does.
            lines += [f"{log_of(name)} {name} {seq} {counts[seq]}\n" for seq in unanswered]
        lines.sort(key=lambda line: int(line.split()[2]))
        process.stdin.write("".join(lines))
        process.stdin.flush()
        return len(lines)

    def _take(self, line: str) -> None:
        _, name, seq, first, last, repeated = json.loads(line)
        self.repeats += repeated
        self.answered[name].add(seq)
        if first is not None:
            assert last - first + 1 == self.counts[name][seq]
            assert self.receipts.setdefault((name, seq), (first, last)) == (first, last)

    def check(self, records: dict[str, list[dict]]) -> None:
        """Every record of every request once, at the position that its receipt says, each producer's in order."""
        found = [record for log in records.values() for record in log]
        assert len({r["_position"] for r in found}) == len(found)
        at = {(r["name"], r["seq"], r["n"]): r["_position"] for r in found}
        assert len(at) == len(found)
        wanted = {
            (name, seq, n)
            for name, counts in self.counts.items()
            for seq, count in enumerate(counts)
            for n in range(count)
        }
        assert at.keys() == wanted
        for (name, seq), (first, _) in self.receipts.items():
            assert at[name, seq, 0] == first
        for name in self.counts:
            mine = [
                (r["seq"], r["n"])
                for r in sorted(found, key=lambda r: r["_position"])
                if r["name"] == name
            ]
            assert mine == sorted(mine)
        for log, entries in records.items():
            assert all(log_of(r["name"]) == log for r in entries)


def log_of(name: str) -> str:
    return ("events", "tables/Stocks", "documents/xml")[int(name[1:]) % 3]


def sealed(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for log in ("events", "tables/Stocks", "documents/xml")
        if (folder / log).is_dir()
        for _, _, path in sealed_segments(folder / log)
    }


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_doubled_or_changed(tmp_path: Path):
    """With files as the log: a segment that was there once, and that Spark may have read, never differs."""
    command = [sys.executable, "-m", "tests.server.publishing_script", str(tmp_path), "files"]
    publishers = Publishers(command, SEED)
    seen: dict[str, bytes] = {}
    for number in range(KILLS):
        publishers.live(kill=True, mute=number == KILLS // 2)
        now = sealed(tmp_path / "published")
        assert seen.items() <= now.items()
        seen = now
    publishers.live(kill=False)
    records = defaultdict(list)
    now = sealed(tmp_path / "published")
    assert seen.items() <= now.items()
    for name, content in sorted(now.items()):
        records[str(Path(name).parent)] += [json.loads(line) for line in content.splitlines()]
    publishers.check(records)
    assert publishers.repeats > 0  # what was on disk, though nobody had been told


@pytest.mark.slow
def test_killed_with_kafka_nothing_is_lost_or_doubled(tmp_path: Path):
    """As readers of committed records see the topics."""
    from confluent_kafka import Consumer, TopicPartition

    try:
        with kafka() as broker:
            where = [broker.address, "killed"]
            script = "tests.server.publishing_script"
            command = [sys.executable, "-m", script, str(tmp_path), "kafka", *where]
            publishers = Publishers(command, SEED)
            for _ in range(KAFKA_KILLS):
                publishers.live(kill=True)
            publishers.live(kill=False)
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.address,
                    "group.id": "reader",
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                }
            )
            records = {}
            for log in ("events", "tables/Stocks", "documents/xml"):
                topic = f"killed-{log.replace('/', '-')}"
                partitions = consumer.list_topics(topic, 60).topics[topic].partitions
                consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
                records[log] = list(_read_all(consumer, len(partitions)))
            consumer.close()
    except NoServer as reason:
        pytest.skip(f"no Kafka: {reason}")
    publishers.check(records)


def _read_all(consumer, partitions: int):
    ended = 0
    while ended < partitions:
        message = consumer.poll(60)
        assert message is not None, "the broker has gone"
        if message.error() is not None:
            ended += 1  # the end of a partition
        else:
            yield json.loads(message.value())
