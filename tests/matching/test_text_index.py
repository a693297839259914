"""The index of patterns against brute force: Python's own search, and RE2 pattern by pattern."""

import random
import sys

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.base.errors import SnapshotError
from penstock.language.folding import lower, lower_table
from penstock.language.patterns import TextTest, text_test
from penstock.language.regexps import compile_regexp, required_literals
from penstock.matching.kernels import FALSE, TRUE, UNKNOWN
from penstock.matching.text_index import build_trie, fold_text, runs_through
from penstock.matching.text_patterns import TextPatterns

LETTERS = "abAB%_!é€İſK\n"
TEXTS = st.text(LETTERS, max_size=12)
TESTS = st.one_of(
    st.builds(
        lambda role, text: text_test(role, text, "!"),
        st.sampled_from(["like", "ilike"]),
        st.text("abAB%_é", max_size=8),
    ),
    st.builds(text_test, st.sampled_from(["infix", "suffix", "ilike"]), st.text(LETTERS, max_size=40)),
    st.builds(
        lambda role, parts: text_test(role, "".join(parts)),
        st.sampled_from(["regexp", "regexp_i", "regexp_s", "regexp_is"]),
        st.lists(
            st.sampled_from(["a", "b", "ab", "s", "é", "(a|bb)", "a?", "b+", "(ab)*", ".", "[ab]", r"\bA", "^"]),
            max_size=5,
        ),
    ),
)  # fmt: skip


def expected(test: TextTest, text: str) -> bool:
    """What RE2 says of the whole pattern."""
    wanted = lower(text) if test.mode == 1 else text
    return compile_regexp(test.to_regex()).search(wanted.encode()) is not None


@settings(deadline=None)
@given(test=TESTS, text=TEXTS)
def test_programs_run_as_regular_expressions_do(test: TextTest, text: str) -> None:
    """The kernel for LIKE and RE2 agree, and every match has a literal that is required."""
    holds = expected(test, text)
    if test.mode != 2:
        data = (lower(text) if test.mode == 1 else text).encode()
        program = np.frombuffer(test.body or b"\0", np.uint8)
        given_text = np.frombuffer(data or b"\0", np.uint8)
        assert runs_through(program, 0, len(test.body), given_text, 0, len(data)) == holds
    if holds and test.required():
        assert any(needle in lower(text).encode() for needle in test.required())


@settings(deadline=None)
@given(
    tests=st.lists(st.tuples(st.integers(0, 1), TESTS), max_size=8, unique=True),
    rows=st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), min_size=1, max_size=6),
)
def test_all_patterns_at_once_are_each_by_itself(
    tests: list[tuple[int, TextTest]], rows: list[tuple[str | None, str | None]]
) -> None:
    """One pass over the texts of a batch, or of an event, finds what RE2 finds for each pattern and text."""
    patterns = TextPatterns.of([("x",), ("y",)], tests)
    patterns.check()
    columns = [pa.array([row[n] for row in rows], pa.string()) for n in (0, 1)]
    batch = pa.RecordBatch.from_arrays(columns, ["x", "y"])
    cells = np.full((len(tests), len(rows)), -1, np.int32)
    patterns.cells(batch, cells)
    for number, (column, test) in enumerate(tests):
        for event, row in enumerate(rows):
            text = row[column]
            wanted = UNKNOWN if text is None else TRUE if expected(test, text) else FALSE
            assert cells[number, event] == wanted, (test, text)
            assert patterns.text_cell(number, text) == wanted
    for event, row in enumerate(rows):
        mine = np.flatnonzero((cells[:, event] == TRUE) & patterns.indexed)
        assert patterns.find_in(row).tolist() == mine.tolist()


def test_every_character_is_folded_alike() -> None:
    """The kernel puts all of Unicode into lower case as `lower` does, one character at a time."""
    points = [p for p in range(1, sys.maxunicode + 1, 1) if not 0xD800 <= p < 0xE000]
    text = "".join(map(chr, points[:0x1F000]))
    data = np.frombuffer(text.encode(), np.uint8)
    out = np.empty(2 * len(data) + 4, np.uint8)
    size = fold_text(data, 0, len(data), lower_table(), out)
    assert out[:size].tobytes().decode() == lower(text)


def test_many_words_are_found() -> None:
    """Thousands of words with common beginnings, long ones among them, in texts that have some of them."""
    rng = random.Random(5)
    lengths = [1, 2, 4, 6, 50]
    words = sorted({"".join(rng.choices("abc", k=rng.choice(lengths))) for _ in range(3_000)})
    patterns = TextPatterns.of([("x",)], [(0, text_test("ilike", f"%{word}%")) for word in words])
    texts = ["".join(rng.choices("abcABC", k=60)) for _ in range(50)]
    texts += [2 * word for word in words[::100]]
    found = patterns.find(pa.RecordBatch.from_pydict({"x": texts}))
    assert found is not None
    got = set(zip(found.event.tolist(), found.pattern.tolist(), strict=True))
    assert got == {
        (event, number)
        for event, text in enumerate(texts)
        for number, word in enumerate(words)
        if word in text.lower()
    }


def test_a_text_of_one_letter_finds_each_needle_once() -> None:
    """However often a needle is in a text: what is found has a bound, and so has the memory for it."""
    needles = ["a" * n for n in range(1, 40)]
    patterns = TextPatterns.of([("x",)], [(0, text_test("infix", needle)) for needle in needles])
    assert patterns.find_in(["a" * 100_000]).tolist() == list(range(39))
    batch = pa.RecordBatch.from_pydict({"x": ["aaa"] * 10})
    assert patterns.find(batch, most=29) is None
    found = patterns.find(batch, most=30)
    assert found is not None
    assert len(found.keys) == 30


@pytest.mark.parametrize(
    ("source", "literals"),
    [
        ("abc", ("abc",)),
        ("ab|cd", ("ab", "cd")),
        ("ab|c?", ()),
        ("a(b|c)def", ("def",)),
        ("(?:abc)+d", ("abc",)),
        ("(abc)?d", ("d",)),
        ("ab{0,3}c", ("a",)),
        ("ab{2}c", ("ab",)),
        ("(?i)shoe", ("hoe",)),
        ("a.b", ("a",)),
        (r"50\.5", ("50.5",)),
        (r"\bword\b", ("word",)),
        (r"\pL+word", ()),
        ("[abc]x[]y]z", ("x",)),
        (r"\Qa.b\E", ()),
        ("^x$", ("x",)),
    ],
)
def test_required_literals(source: str, literals: tuple[str, ...]) -> None:
    """What every match of an expression has in it; nothing where that isn't plain."""
    compile_regexp(source)
    assert required_literals(source) == literals


@pytest.mark.parametrize("name", ["child", "first", "pattern"])
def test_a_damaged_trie_is_refused(name: str) -> None:
    """Numbers that would lead a kernel out of its arrays, or in a circle."""
    trie = build_trie(1, [(0, b"ab", 0), (0, b"ac", 1), (0, b"b", 1)])
    trie.check(1, 2)
    for place in range(len(getattr(trie, name))):
        for value in (-1, 1_000):
            array = getattr(trie, name).copy()
            array[place] = value
            with pytest.raises(SnapshotError):
                trie._replace(**{name: array}).check(1, 2)
