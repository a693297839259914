"""The text tests of a plan: distinct patterns on distinct attributes, and which of them hold for which events.

    pattern p     tests the attribute paths[attribute[p]], in the mode mode[p] (`language.patterns`), with bodies[p]
    needle        leads to the patterns that need it (`text_index`); length[p] is that of the shortest one of p, 0 if p
                  has none: then p is evaluated by itself, by RE2

A pattern is a derived attribute like others (unknown, false, true). But there may be hundreds of thousands of patterns,
and an event satisfies a handful. So patterns with needles are *found*, as pairs of event and pattern. An engine gets
cells only of the few patterns by which it finds conjunctions (`engines.gates`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import AnyArray, Bools, Int32s, Int64s, distinct, read_only
from penstock.base.columns import descend
from penstock.language.calls import Path
from penstock.language.folding import lower, lower_table
from penstock.language.patterns import ILIKE, LIKE, REGEXP, TextTest
from penstock.language.regexps import compile_regexp
from penstock.matching.domains import ByteStrings
from penstock.matching.invariants import check_alike, check_numbers, check_within
from penstock.matching.kernels import FALSE, TRUE, UNKNOWN
from penstock.matching.text_index import (
    ASK_RE2,
    LONGEST,
    RUN_EXACT,
    RUN_LOWER,
    SURE,
    Programs,
    TextRun,
    Trie,
    build_trie,
    search_texts,
)

_TASKS = {LIKE: RUN_EXACT, ILIKE: RUN_LOWER, REGEXP: ASK_RE2}
_MANY = 64  # texts of one pattern that RE2 is given at once
_ALL_VALID = read_only(np.empty(0, np.bool_))
_UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class FoundPatterns:
    """The patterns with needles that hold for the events of a batch: event * patterns + pattern of each, ascending.

    `missing` says, for each attribute, which events don't have it; None if all do.
    """

    patterns: int
    keys: Int64s
    missing: tuple[Bools | None, ...]

    @property
    def event(self) -> Int64s:
        """The event of each pair."""
        return self.keys // max(1, self.patterns)

    @property
    def pattern(self) -> Int64s:
        """The pattern of each pair."""
        return self.keys % max(1, self.patterns)

    def hold(self, event: Int32s | Int64s, pattern: Int32s | Int64s) -> Bools:
        """Whether each pair is among them."""
        keys = event.astype(np.int64) * self.patterns + pattern
        if not len(self.keys):
            return np.zeros(len(keys), np.bool_)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: Bools = self.keys[place] == keys
        return found


@dataclass(frozen=True)
class TextPatterns:
    """See the module. Arrays may be mapped from files: nobody writes to them."""

    paths: tuple[Path, ...]
    attribute: Int32s
    mode: Int32s
    bodies: ByteStrings
    length: Int32s
    task: Int32s
    trie: Trie

    def __len__(self) -> int:
        return len(self.attribute)

    @staticmethod
    def of(paths: Sequence[Path], tests: Sequence[tuple[int, TextTest]]) -> "TextPatterns":
        """From distinct tests, each with the number of the attribute that it tests."""
        lengths: list[int] = []
        tasks: list[int] = []
        needles: list[tuple[int, bytes, int]] = []
        for number, (attribute, test) in enumerate(tests):
            required = test.required()
            lengths.append(min(map(len, required), default=0))
            is_sure = test.is_infix and test.mode == ILIKE and len(required[0]) <= LONGEST
            tasks.append(SURE if is_sure else _TASKS[test.mode])
            for needle in required:
                needles.append((attribute, needle, number))  # noqa: PERF401
        bodies = pa.array([test.body for _, test in tests], pa.large_binary())
        return TextPatterns(
            tuple(paths),
            np.array([attribute for attribute, _ in tests], np.int32),
            np.array([test.mode for _, test in tests], np.int32),
            ByteStrings.of(bodies),
            np.array(lengths, np.int32),
            read_only(np.array(tasks, np.int32)),
            build_trie(len(paths), needles),
        )

    @staticmethod
    def none() -> "TextPatterns":
        """No patterns."""
        return TextPatterns.of((), ())

    def take(self, chosen: Int32s) -> "TextPatterns":
        """Some of the patterns, with an index of their own."""
        if not len(chosen):
            return TextPatterns.none()
        return TextPatterns.of(
            self.paths, [(int(self.attribute[n]), self.test(int(n))) for n in chosen]
        )

    def test(self, number: int) -> TextTest:
        start, end = self.bodies.offsets[number : number + 2]
        return TextTest(int(self.mode[number]), self.bodies.data[start:end].tobytes())

    @cached_property
    def indexed(self) -> Bools:
        """Which patterns have needles."""
        found: Bools = self.length > 0
        return found

    @cached_property
    def searched(self) -> list[int]:
        """The attributes that have patterns with needles."""
        found: list[int] = distinct(self.attribute[self.indexed]).tolist()
        return found

    # --- evaluating ----------------------------------------------------------------------------

    def find(self, batch: pa.RecordBatch, most: int = _UNBOUNDED) -> FoundPatterns | None:
        """The patterns with needles that hold; None if there may be more than `most` of them."""
        columns = [text_column(batch, path) for path in self.paths]
        keys: list[Int64s] = []
        for root in self.searched:
            column = columns[root]
            if column is not None:
                found = self._search(_text_run(column), root, most)
                if found is None:
                    return None
                keys.append(found)
                most -= len(found)
        missing = tuple(_missing(column, batch.num_rows) for column in columns)
        return FoundPatterns(len(self), _ascending(keys), missing)

    def find_in(self, texts: Sequence[str | None]) -> Int64s:
        """The patterns with needles that hold for one event, ascending, given the values of `paths`."""
        keys: list[Int64s] = []
        for root in self.searched:
            text = texts[root]
            if text is not None:
                data = np.frombuffer(text.encode() or b"\0", np.uint8)
                size = len(data) if text else 0
                run = TextRun(read_only(np.array([0, size], np.int64)), data, _ALL_VALID)
                found = self._search(run, root, _UNBOUNDED)
                assert found is not None
                keys.append(found)
        return _ascending(keys)

    def cells(self, batch: pa.RecordBatch, out: Int32s) -> None:
        """Evaluate every pattern on a batch: unknown, false or true."""
        if not len(self):
            return
        found = self.find(batch)
        assert found is not None
        for number, missing in enumerate(found.missing):
            mine = np.flatnonzero(self.attribute == number)
            out[mine] = FALSE if missing is None else np.where(missing, UNKNOWN, FALSE)
        out[found.pattern, found.event] = TRUE
        for number in np.flatnonzero(~self.indexed).tolist():
            column = text_column(batch, self.paths[self.attribute[number]])
            if column is not None:
                out[number] = self.column_cells(number, column)

    def column_cells(self, number: int, column: pa.Array) -> Int32s:
        """Evaluate one pattern without needles on a column of texts. It has no letters, so case makes no difference."""
        holds = pc.match_substring_regex(column, self.test(number).to_regex())
        cells: Int32s = pc.fill_null(holds.cast(pa.int8()), -1).to_numpy(zero_copy_only=False) + 1
        return cells

    def text_cell(self, number: int, text: str | None) -> int:
        """Evaluate one pattern on one text."""
        if text is None:
            return UNKNOWN
        return TRUE if _holds(self.test(number), text.encode()) else FALSE

    def _search(self, texts: TextRun, root: int, most: int) -> Int64s | None:
        text, pattern, asked, waiting = search_texts(
            texts, root, self.trie, self._programs, lower_table(), most
        )
        if len(text) > most:
            return None
        keys: Int64s = pattern.astype(np.int64)
        if len(texts.offsets) > 2:
            keys += text.astype(np.int64) * len(self)
        if not waiting:
            return keys
        holds = ~asked
        holds[asked] = self._ask(texts, text[asked], pattern[asked])
        return keys[holds]

    def _ask(self, texts: TextRun, text: Int32s, pattern: Int32s) -> Bools:
        """Whether pairs of text and pattern match, by RE2."""
        holds = np.empty(len(text), np.bool_)
        order = np.argsort(pattern, kind="stable")
        bounds = np.flatnonzero(np.diff(pattern[order], prepend=-1))
        for first, past in zip(bounds, np.append(bounds[1:], len(order)), strict=True):
            mine = order[first:past]
            test = self.test(int(pattern[mine[0]]))
            values = [
                texts.data[texts.offsets[t] : texts.offsets[t + 1]].tobytes() for t in text[mine]
            ]
            if len(values) >= _MANY and test.mode != ILIKE:
                column = pa.array(values, pa.large_binary()).cast(pa.large_string())
                found = pc.match_substring_regex(column, test.to_regex())
                holds[mine] = found.to_numpy(zero_copy_only=False)
            else:
                holds[mine] = [_holds(test, value) for value in values]
        return holds

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self.task, read_only(self.bodies.offsets), read_only(self.bodies.data))

    # --- as files ------------------------------------------------------------------------------

    def check(self) -> None:
        """A SnapshotError unless the arrays are as the module says."""
        check_numbers(np.int32, attribute=self.attribute, mode=self.mode)
        check_numbers(np.int32, length=self.length, task=self.task)
        check_alike(len(self), mode=self.mode, length=self.length, task=self.task)
        check_within(0, len(self.paths), attribute=self.attribute)
        check_within(LIKE, REGEXP + 1, mode=self.mode)
        check_within(SURE, ASK_RE2 + 1, task=self.task)
        self.bodies.check(len(self))
        self.trie.check(len(self.paths), len(self))

    def arrays(self) -> dict[str, AnyArray]:
        found: dict[str, AnyArray] = {
            "texts.attribute": self.attribute,
            "texts.mode": self.mode,
            "texts.length": self.length,
            "texts.task": self.task,
        }
        found |= self.bodies.arrays("texts.bodies")
        return found | {f"texts.{name}": array for name, array in self.trie._asdict().items()}

    @staticmethod
    def assemble(paths: Sequence[Path], arrays: Mapping[str, AnyArray]) -> "TextPatterns":
        """What `arrays` gave."""
        return TextPatterns(
            tuple(paths),
            arrays["texts.attribute"],
            arrays["texts.mode"],
            ByteStrings.from_arrays("texts.bodies", arrays),
            arrays["texts.length"],
            arrays["texts.task"],
            Trie(*(arrays[f"texts.{name}"] for name in Trie._fields)),
        )


def _holds(test: TextTest, text: bytes) -> bool:
    """Whether one text matches, by RE2."""
    if test.mode == ILIKE:
        text = lower(text.decode()).encode()
    return compile_regexp(test.to_regex()).search(text) is not None


def text_column(batch: pa.RecordBatch, path: Path) -> pa.Array | None:
    """The texts of an attribute; None if no event has it."""
    column: Any = descend(batch, path)
    if column is None or pa.types.is_null(column.type):
        return None
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _text_run(column: pa.Array) -> TextRun:
    texts = ByteStrings.of(column)
    valid = _ALL_VALID
    if column.null_count:
        valid = read_only(column.is_valid().to_numpy(zero_copy_only=False))
    return TextRun(read_only(texts.offsets), read_only(texts.data), valid)


def _missing(column: pa.Array | None, events: int) -> Bools | None:
    if column is None:
        return np.ones(events, np.bool_)
    if not column.null_count:
        return None
    found: Bools = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _ascending(keys: Sequence[Int64s]) -> Int64s:
    """All keys ascending, given those of each attribute, which are."""
    if len(keys) == 1:
        return keys[0]
    return np.sort(np.concatenate(keys)) if keys else np.empty(0, np.int64)
