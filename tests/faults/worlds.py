"""Pipelines of every kind, what goes into them, and the oracles that say what must have come out."""

import json
import random
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc
from tests.faults.hostile import (
    BAD_CHANGES,
    BAD_DOCUMENTS,
    BAD_RECORDS,
    EXPENSIVE,
    EXPENSIVE_SELECT,
    EXPLOSIVE_DOCUMENT,
    EXPLOSIVE_PATTERN,
    EXTREME_SELECTS,
    FRAGILE,
    SPOILED,
    ends_process,
    fragile,
    raises,
    spoil_rows,
)
from tests.faults.subscribers import Subscribers
from tests.pipeline import joins_scenes
from tests.pipeline.joins_scenes import notifications, view_of
from tests.pipeline.scenes import delivered, write_events
from tests.sizes import TRIGGER
from tests.views.document_model import Node, embeddings, xml_nodes

import penstock
from penstock.base.errors import ExpensiveSubscription
from penstock.delivery import FileSink
from penstock.pipeline import Pipeline, Source
from penstock.pipeline.digest_state import TickLog
from penstock.pipeline.pace_log import PaceLog
from penstock.pipeline.pins import Pins
from penstock.views.pattern_parser import parse_pattern
from penstock.views.tree_pattern import Returns, TreePattern

EVENTS = 60  # of a file
SYMBOLS = ["AAPL", "GOOG", "MSFT", "NVDA", None]


class World(ABC):
    """A pipeline of one kind, its input so far, and what must come out of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.files = folder, random.Random(seed), 0

    @staticmethod
    @abstractmethod
    def pipeline(folder: Path, spark: Any, sink: Any, trigger: str) -> Any:
        """The pipeline, not started, in whatever process."""

    @abstractmethod
    def publish(self) -> None:
        """Publish something more, bad records among it, and let subscriptions change where they can."""

    @abstractmethod
    def check(self) -> None:
        """Compare all that was delivered, and the dead letters, with the oracle's."""

    @abstractmethod
    def close(self) -> None:
        """Let nothing change any more."""

    def letters(self) -> list[str]:
        """The records that became dead letters, as they came."""
        return [
            json.loads(line)["raw"]
            for path in sorted((self.folder / "dead").glob("*/batch=*/*.json"))
            for line in path.read_text().splitlines()
        ]


class Filters(World):
    """Events in JSON files, filters that come, go, are renewed and end all the time. The oracle is DuckDB.

    Among them are an expensive one, some that another program has spoiled, and an operator that dies of some events.

    Which events are in which micro-batch is read from Spark's own log; what each was matched with, from the pins: the
    subscriptions as they stood at a sequence number and the leases that hadn't ended at a time.
    """

    SCHEMA: ClassVar = {
        "id": "bigint",
        "symbol": "string",
        "price": "double",
        "size": "int",
        "bid": "decimal(9, 2)",
    }

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.events: list[tuple[Any, ...]] = []
        self.bad: list[str] = []
        url = f"sqlite:///{folder}/subs.db"
        with penstock.Subscriptions.open(url, self.SCHEMA, operators=[fragile]) as subs:
            subs.subscribe("mallory", EXPENSIVE, lease="forever")
            spoiled = [subs.subscribe("trudy", "price < -1", lease="forever")[0] for _ in SPOILED]
            self.fragile, _ = subs.subscribe("ann", FRAGILE, lease="forever")
        spoil_rows(folder / "subs.db", spoiled)
        self.subscribers = Subscribers(url, seed)
        self.subscribers.start()

    @staticmethod
    def pipeline(folder: Path, spark: Any, sink: Any, trigger: str) -> Pipeline:
        options = {"maxFilesPerTrigger": 2}
        return Pipeline(
            events=Source("json", str(folder / "in"), Filters.SCHEMA, options=options),
            operators=[fragile],
            subscriptions=f"sqlite:///{folder}/subs.db",
            sink=sink,
            dead_letters=FileSink(folder / "dead", "json"),
            checkpoint=folder / "checkpoint",
            trigger=trigger,
            metrics=folder / "metrics.jsonl",
            spark=spark,
        )

    def publish(self) -> None:
        for _ in range(4):
            self._write_file()

    def _write_file(self) -> None:
        lines: list[Any] = []
        for _ in range(EVENTS):
            price = self.rng.choice([None, self.rng.uniform(0, 100)])
            event = (len(self.events), self.rng.choice(SYMBOLS), price, self.rng.randrange(10))
            self.events.append((*event, self.files))
            lines.append(dict(zip(("id", "symbol", "price", "size"), event, strict=True)))
        bad = self.rng.choice(BAD_RECORDS)
        self.bad.append(bad)
        lines.insert(self.rng.randrange(EVENTS), bad)
        write_events(self.folder / "in", f"{self.files}.json", lines)
        self.files += 1

    def close(self) -> None:
        self.subscribers.close()

    def check(self) -> None:
        batches = self._batches()
        assert sorted(file for files in batches.values() for file in files) == [*range(self.files)]
        found, expected = delivered(self.folder / "out"), self._expected(batches)
        assert len(found) == len(expected) > 1000
        assert found == expected
        letters = self.letters()
        assert sorted(raw for raw in letters if raw in self.bad) == sorted(self.bad)
        failed = sorted(json.loads(raw)["id"] for raw in letters if raw not in self.bad)
        numbers = range(len(self.events))
        assert failed == [n for n in numbers if ends_process(n) or raises(n)]
        pins = Pins(self.folder / "checkpoint/events")
        sequences = {pins.find(batch).snapshot.sequence for batch in batches}
        assert len(sequences) > len(batches) // 2, "subscriptions hardly changed"

    def replays(self) -> dict[int, int | None]:
        """The micro-batches that were run again, with their events; None: nothing was left to do."""
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return {m["batch"]: m["published"] for m in map(json.loads, lines) if m["replayed"]}

    def _expected(self, batches: dict[int, list[int]]) -> list[tuple[int, int, int]]:
        """(micro-batch, event, subscription) of every notification there should be."""
        import duckdb  # not above: a life needs no oracle

        database = duckdb.connect()
        database.execute(
            "CREATE TABLE events (id BIGINT, symbol VARCHAR, price DOUBLE, size INT, file INT)"
        )
        database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", self.events)
        matching = {
            text: database.execute(f"SELECT id, file FROM events WHERE {text}").fetchall()
            for text in self.subscribers.texts()
        }
        pins = Pins(self.folder / "checkpoint/events")
        found = []
        for batch, files in batches.items():
            pin = pins.find(batch)
            assert pin is not None
            found += [(batch, n, self.fragile) for n in range(5) if self.events[n][-1] in files]
            for sid, text in self.subscribers.alive(pin.snapshot.sequence, pin.now).items():
                found += [(batch, event, sid) for event, file in matching[text] if file in files]
        return sorted(found)

    def _batches(self) -> dict[int, list[int]]:
        """Which input files Spark read in which micro-batch, by its own logs."""
        checkpoint = self.folder / "checkpoint/events"
        files: dict[int, list[int]] = {}
        for path in (checkpoint / "sources/0").iterdir():
            if not path.name.startswith("."):
                for line in path.read_text().splitlines()[1:]:
                    entry = json.loads(line)
                    number = int(Path(entry["path"]).stem)
                    if number not in files.setdefault(entry["batchId"], []):
                        files[entry["batchId"]].append(number)
        batches, read = {}, -1
        for path in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda p: int(p.name)):
            end = json.loads(path.read_text().splitlines()[-1])["logOffset"]
            batches[int(path.name)] = [
                n for i in range(read + 1, end + 1) for n in files.get(i, [])
            ]
            read = end
        return batches


class Paces(Filters):
    """Events and filters that stay, some with paces. The oracle lets one notification after the other through.

    It knows from the pins when each micro-batch was, and from the events which of them came first. Digests are sent by
    ticks, and when these are nobody knows: each notification must be in one of them, or wait for one.
    """

    TEXTS: ClassVar = {  # by filter
        "price > 10": None,
        "price > 20": "7 per 300 days",
        "size > 2": "5 per second",
        "size > 3": "digest per second",
        "price > 30": "digest per 300 days",
    }

    def __init__(self, folder: Path, seed: int) -> None:
        World.__init__(self, folder, seed)
        self.events: list[tuple[Any, ...]] = []
        self.bad: list[str] = []
        with penstock.Subscriptions.open(f"sqlite:///{folder}/subs.db") as subs:
            for text, pace in self.TEXTS.items():
                subs.subscribe("ann", text, lease="forever", pace=pace)

    @staticmethod
    def pipeline(folder: Path, spark: Any, sink: Any, trigger: str) -> Pipeline:
        whole = Filters.pipeline(folder, spark, sink, trigger)
        time = {"event_time": "size_time"}
        source = Source(
            "json",
            str(folder / "in"),
            Filters.SCHEMA | {"size_time": "timestamp"},
            options={"maxFilesPerTrigger": 2},
        )
        return replace(whole, events=source, operators=None, digests=TRIGGER, **time)

    def _write_file(self) -> None:
        lines: list[Any] = []
        for _ in range(EVENTS):
            event = (len(self.events), "A", self.rng.uniform(0, 100), self.rng.randrange(10))
            self.events.append((*event, self.files))
            row = dict(zip(("id", "symbol", "price", "size"), event, strict=True))
            lines.append(row | {"size_time": _time_of(event[0])})
        write_events(self.folder / "in", f"{self.files}.json", lines)
        self.files += 1

    def close(self) -> None:
        """Subscriptions don't change."""

    def check(self) -> None:
        batches = self._batches()
        assert sorted(file for files in batches.values() for file in files) == [*range(self.files)]
        found = delivered(self.folder / "out", "filter")
        assert found == self._expected(batches)
        assert len(found) > len(self.events) / 2
        with penstock.Subscriptions.open(f"sqlite:///{self.folder}/subs.db") as subs:
            sent = Counter(sid for _, _, sid in found)
            for sid in (2, 3):
                assert sent[sid] + subs.held(sid) == len(self._matching(sid))
        for sid in (4, 5):
            self._check_digests(sid)

    def _matching(self, sid: int) -> list[int]:
        """The events of a subscription, in the order in which they happened."""
        text = list(self.TEXTS)[sid - 1]
        name, _, bound = text.partition(" > ")
        place = {"price": 2, "size": 3}[name]
        fitting = [event[0] for event in self.events if event[place] > float(bound)]
        return sorted(fitting, key=_time_of)

    def _expected(self, batches: dict[int, list[int]]) -> list[tuple[int, int, int]]:
        pins = Pins(self.folder / "checkpoint/events")
        found = [
            (batch, event, 1)
            for batch, files in batches.items()
            for event in self._matching(1)
            if self.events[event][-1] in files
        ]
        for sid, most, interval in ((2, 7, 300 * 86_400_000_000), (3, 5, 1_000_000)):
            opened, count = None, 0
            for batch, files in sorted(batches.items()):
                pin = pins.find(batch)
                assert pin is not None
                for event in self._matching(sid):
                    if self.events[event][-1] not in files:
                        continue
                    if opened is None or not opened <= pin.now < opened + interval:
                        opened, count = pin.now, 0
                    if count < most:
                        count += 1
                        found.append((batch, event, sid))
        return sorted(found)

    def _check_digests(self, sid: int) -> None:
        """All that matches was sent in a digest, or waits; nothing twice."""
        rows = [
            row["digest"]
            for batch in notifications(self.folder / "out", "digest").values()
            for row in batch
            if row["subscriptions"] == [sid]
        ]
        inside = [one["event"]["id"] for digest in rows for one in digest["notifications"]]
        assert len(set(inside)) == len(inside) == sum(min(one["count"], 100) for one in rows)
        matching = self._matching(sid)
        assert set(inside) <= set(matching)
        log = TickLog(str(self.folder / "checkpoint/digests"))
        last = log.before(1 << 40)
        waiting = last.open[sid].window.count if sid in last.open else 0
        paces = PaceLog(str(self.folder / "checkpoint/events"))
        for number, path in paces.gathered_batches().items():
            if number > last.taken.get("events", -1):
                table = paces.read_gathered(path)
                waiting += pc.sum(
                    table.filter(pc.equal(table["subscription"], sid))["count"]
                ).as_py()
        assert sum(one["count"] for one in rows) + waiting == len(matching)
        assert bool(rows) == (sid == 4), "digests of a second were sent, those of a year weren't"


def _time_of(event: int) -> str:
    """When an event happened: in another order than that in which they are published."""
    return f"2026-01-01T00:{event * 7 % 60:02}:{event * 11 % 60:02}.{event:06}Z"


class Joins(World):
    """Changes of two tables, select-joins that come and go. The oracle is DuckDB's result of each SELECT at the end.

    Some have leases that are renewed, some leases that end. By a clock that is wrong for a life more of them end. Among
    them are some with extreme constants, an expensive one, and some that another program has spoiled.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.market = joins_scenes.Market(folder / "in", seed)
        self.subs = penstock.Subscriptions.open(
            f"sqlite:///{folder}/subs.db", catalog=joins_scenes.CATALOG
        )
        self.texts: dict[int, str] = {}
        self.leased: dict[int, str] = {}  # tickets
        for text in EXTREME_SELECTS:
            self._subscribe(text)
        self.expensive = self._subscribe(EXPENSIVE_SELECT)
        self.spoiled = [
            self._subscribe(f"SELECT * FROM Reviews WHERE Id > {n}") for n in range(len(SPOILED))
        ]
        spoil_rows(folder / "subs.db", self.spoiled)
        for sid in self.spoiled:
            del self.texts[sid]
        self.bad = 0

    def _subscribe(self, text: str, lease: str = "forever") -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExpensiveSubscription)
            sid, ticket = self.subs.subscribe("someone", text, lease=lease)
        if lease != "1 second":  # such a one is gone by itself
            self.texts[sid] = text
        if lease == "1 day":
            self.leased[sid] = ticket
        return sid

    @staticmethod
    def pipeline(folder: Path, spark: Any, sink: Any, trigger: str) -> Any:
        url = f"sqlite:///{folder}/subs.db"
        dead = FileSink(folder / "dead", "json")
        return joins_scenes.pipeline(
            folder, spark, url, sink=sink, trigger=trigger, dead_letters=dead
        )

    def publish(self) -> None:
        for lease in ("forever", "forever", "forever", "1 day", "1 day", "1 second"):
            self._subscribe(joins_scenes.random_text(self.rng), lease)
        sid = self.rng.choice([sid for sid in self.texts if sid != self.expensive])
        self.subs.remove(sid)
        del self.texts[sid]
        self.leased.pop(sid, None)
        for sid in self.rng.sample(sorted(self.leased), len(self.leased) // 2):
            self.subs.renew(sid, self.leased[sid], lease=self.rng.choice(["1 day", "3 days"]))
        for _ in range(3):
            self.market.changes(30)
        self.market.write("Reviews", list(BAD_CHANGES))
        self.bad += len(BAD_CHANGES)

    def close(self) -> None:
        self.subs.close()

    def check(self) -> None:
        batches = notifications(self.folder / "out")
        with penstock.Subscriptions.open(f"sqlite:///{self.folder}/subs.db") as subs:
            costly = [one for one in subs.refused() if "evaluations a tuple" in one.reason]
        assert {one.id for one in costly} <= {self.expensive}  # if it has seen enough tuples
        for sid, text in self.texts.items():
            if sid in {one.id for one in costly}:
                continue
            view = Counter(map(tuple, view_of(text, sid, batches)))
            wanted = self.market.result(text)
            assert view == wanted, (text, view - wanted, wanted - view)
        ids = [row["notification_id"] for rows in batches.values() for row in rows]
        assert len(set(ids)) == len(ids) > 100
        assert sorted(batches) == list(range(max(batches) + 1))
        letters = [json.loads(raw) for raw in self.letters()]
        aside = [letter["subscription"] for letter in letters if "subscription" in letter]
        assert sorted(aside) == self.spoiled
        assert len(letters) - len(aside) == self.bad, (len(letters) - len(aside), self.bad)

    def came_back(self) -> set[int]:
        """The select-joins that were told more than once to forget what they hold."""
        told = Counter(
            sid
            for rows in notifications(self.folder / "out").values()
            for row in rows
            if row["message"]["change"] == "reset"
            for sid in row["subscriptions"]
        )
        return {sid for sid, count in told.items() if count > 1}


class Views(World):
    """XML documents, views fed by views. The oracle is lxml and nested loops over the definition of embeddings.

    One view has too many tuples of some documents; when there were enough of those, it is set aside.
    """

    TEXTS = (
        "//item[topic{val}]",
        "//item[author{val}]",
        "//item[topic = 'ACME'][author{val}]",
        "//headline{cont}",
        EXPLOSIVE_PATTERN,
    )

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.documents: list[str] = []
        self.bad: list[str] = []
        with penstock.Subscriptions.open(f"sqlite:///{folder}/subs.db") as subs:
            self.ids = [subs.subscribe("ann", text, lease="forever").id for text in self.TEXTS]

    @staticmethod
    def pipeline(folder: Path, spark: Any, sink: Any, trigger: str) -> Pipeline:
        documents = spark.readStream.schema("id long, document string").option(
            "maxFilesPerTrigger", 2
        )
        return Pipeline(
            documents=documents.json(str(folder / "in")),
            views=penstock.ViewOptions(feeding=penstock.LiveOptions(plan="live")),
            subscriptions=f"sqlite:///{folder}/subs.db",
            sink=sink,
            dead_letters=FileSink(folder / "dead", "json"),
            checkpoint=folder / "checkpoint",
            trigger=trigger,
        )

    def close(self) -> None:
        """Views are those of the plan, and don't change."""

    def publish(self) -> None:
        for _ in range(4):
            rows = []
            for document in (*(self._document() for _ in range(20)), EXPLOSIVE_DOCUMENT):
                rows.append({"id": len(self.documents), "document": document})
                self.documents.append(document)
            self.bad.append(EXPLOSIVE_DOCUMENT)  # for one view
            bad = self.rng.choice(BAD_DOCUMENTS)
            self.bad.append(bad)
            rows.insert(self.rng.randrange(20), {"id": -1, "document": bad})
            write_events(self.folder / "in", f"{self.files}.json", rows)
            self.files += 1

    def _document(self) -> str:
        items = [
            f"<item><topic>{self.rng.choice(['ACME', 'Other'])}</topic>"
            + "".join(
                f"<author>{self.rng.choice('ABC')}</author>" for _ in range(self.rng.randrange(3))
            )
            + "<headline>Up &amp; away</headline></item>"
            for _ in range(self.rng.randrange(4))
        ]
        return f"<news>{''.join(items)}</news>"

    def check(self) -> None:
        expected: Counter[Any] = Counter()
        for number, document in enumerate(self.documents):
            nodes = xml_nodes(document)
            for view, text in zip(self.ids, self.TEXTS, strict=True):
                if (document, text) == (EXPLOSIVE_DOCUMENT, EXPLOSIVE_PATTERN):
                    continue
                for values in _tuples(parse_pattern(text), nodes):
                    expected[number, view, values] += 1
        found: Counter[Any] = Counter()
        for rows in notifications(self.folder / "out").values():
            for row in rows:
                for view in row["subscriptions"]:
                    for values in row["document"]["tuples"]:
                        found[row["document"]["id"], view, tuple(values)] += 1
        assert found == expected
        letters, bad = Counter(self.letters()), Counter(self.bad)
        lacking = bad - letters
        assert not letters - bad
        assert lacking.keys() <= {EXPLOSIVE_DOCUMENT}
        with penstock.Subscriptions.open(f"sqlite:///{self.folder}/subs.db") as subs:
            aside = {one.id for one in subs.refused()}
        # From when it is set aside because of what it costs, its documents are nobody's dead letters.
        assert aside <= {self.ids[self.TEXTS.index(EXPLOSIVE_PATTERN)]}
        assert aside or not lacking


def _tuples(pattern: TreePattern, nodes: list[Node]) -> Iterator[tuple[str | None, ...]]:
    for embedding in embeddings(pattern, nodes):
        chosen = zip(embedding, pattern.nodes, strict=True)
        yield tuple(
            nodes[number].value if Returns.VAL in wanted.returns else nodes[number].cont
            for number, wanted in chosen
            if wanted.returns != Returns.NOTHING
        )


WORLDS: dict[str, type[World]] = {
    "filters": Filters,
    "paces": Paces,
    "joins": Joins,
    "views": Views,
}
