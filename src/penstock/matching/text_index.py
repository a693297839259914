"""An index of text patterns: finds all patterns that hold for a text in one pass over the text.

A text test that can't hold without some literal has *needles*: its longest literal, or one for each alternative, in
lower case. The needles of an attribute are a trie. A text is put into lower case once, and from each of its characters
the trie is walked as far as the text goes along with it:

    needles  red, shoe, shoes            text  … r e d   s h o e s …
                                                 └─┴─┘   └─┴─┴─┴─┘
    root ─ r ─ e ─ d•                            red     shoe, shoes
         └ s ─ h ─ o ─ e• ─ s•

Nodes stand level by level, so that the children of a node are a run, ascending by the byte that leads to them: nine
bytes a node, without links. The first nodes are the roots, one for each attribute. A needle has at most `LONGEST`
bytes, and so has a walk: the time is linear in the text, whatever the needles. The automaton of Aho and Corasick would
never go back, but its links make it twice as large, and most walks end after two or three steps.

A needle that is found leads to its patterns. A pattern holds at once if the needle is all that it asks for; else a
kernel runs the pattern's program, or RE2 searches for a regular expression. So the time grows with the patterns that
are found, and not with how many there are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Bytes, Int32s, Int64s, read_only
from penstock.base.jit import kernel
from penstock.language.patterns import ANY_CHARACTER, ANY_TEXT
from penstock.matching.invariants import (
    check_alike,
    check_numbers,
    check_starts,
    check_within,
    require,
)
from penstock.matching.kernels import grow_array

LONGEST = 32  # bytes of a needle
# What is left to do when a needle was found.
SURE, RUN_EXACT, RUN_LOWER, ASK_RE2 = 0, 1, 2, 3
_MANY = 1 << 12  # nodes found in a text, before repetitions are dropped
_MOST_STEPS = (
    1 << 20
)  # bytes of a text times those of a program: beyond that RE2 is asked, which is linear
_ROOT_BYTES = 4  # by which the needles of an attribute are kept together


class Trie(NamedTuple):
    """The children of node n are child[n] .. child[n + 1], and the byte label[n] leads to it.

    The patterns of the needle that ends there are pattern[first[n]:first[n + 1]].
    """

    child: Int32s
    label: Bytes
    first: Int32s
    pattern: Int32s

    def check(self, roots: int, patterns: int) -> None:
        """A SnapshotError unless walks end and lead to patterns."""
        check_numbers(np.int32, child=self.child, first=self.first, pattern=self.pattern)
        check_numbers(np.uint8, label=self.label)
        nodes = len(self.label)
        check_alike(nodes + 1, child=self.child)
        check_starts(nodes, len(self.pattern), first=self.first)
        require(nodes >= roots, "a trie lacks roots")
        require(
            self.child[0] == roots and self.child[-1] == nodes, "a trie's nodes aren't all children"
        )
        # A child stands behind its parent: no walk comes back to where it was.
        require((self.child[:-1] > np.arange(nodes)).all(), "a trie goes back")
        require((self.child[1:] >= self.child[:-1]).all(), "children of a trie go back")
        check_within(0, patterns, pattern=self.pattern)


class Programs(NamedTuple):
    """What is left to do for each pattern, and the program of pattern p: data[start[p]:start[p + 1]]."""

    task: Int32s
    start: Int64s
    data: Bytes


class TextRun(NamedTuple):
    """Texts end to end: text i is data[offsets[i]:offsets[i + 1]]. An empty `valid`: all are there."""

    offsets: Int64s
    data: Bytes
    valid: Bools


def build_trie(roots: int, needles: Sequence[tuple[int, bytes, int]]) -> Trie:
    """The trie of needles, each with its root and the pattern that it leads to.

    >>> trie = build_trie(1, [(0, b"ab", 5), (0, b"a", 6)])
    >>> trie.child.tolist(), bytes(trie.label[1:]), trie.pattern.tolist()
    ([1, 2, 3, 3], b'ab', [6, 5])
    """
    keys = [root.to_bytes(_ROOT_BYTES, "big") + needle[:LONGEST] for root, needle, _ in needles]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    keys = [keys[n] for n in order]
    lengths = np.array([len(key) for key in keys], np.int64)
    start = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    data = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
    pattern = np.array([needles[n][2] for n in order], np.int32)
    root_of = np.array([needles[n][0] for n in order], np.int64)
    begins = np.searchsorted(root_of, np.arange(roots + 1))
    child, label, first, found = _build(begins, start, data, pattern)
    return Trie(read_only(child), read_only(label), read_only(first), read_only(found))


@kernel
def _build(
    begins: Int64s, start: Int64s, data: Bytes, pattern: Int32s
) -> tuple[Int32s, Bytes, Int32s, Int32s]:
    """Level by level: a node is a run of the sorted needles that begin alike."""
    roots = len(begins) - 1
    most = roots + len(data)
    child, label = np.empty(most + 1, np.int32), np.zeros(most, np.uint8)
    first, out = np.zeros(most + 1, np.int32), np.empty(len(pattern), np.int32)
    low, high, depth = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    for r in range(roots):
        low[r], high[r], depth[r] = begins[r], begins[r + 1], _ROOT_BYTES
    nodes = roots
    found = 0
    n = 0
    while n < nodes:
        child[n], first[n] = nodes, found
        i = low[n]
        while i < high[n] and start[i + 1] - start[i] == depth[n]:
            out[found] = pattern[i]
            found += 1
            i += 1
        while i < high[n]:
            byte = data[start[i] + depth[n]]
            low[nodes], depth[nodes], label[nodes] = i, depth[n] + 1, byte
            while i < high[n] and data[start[i] + depth[n]] == byte:
                i += 1
            high[nodes] = i
            nodes += 1
        n += 1
    child[nodes], first[nodes] = nodes, found
    return child[: nodes + 1].copy(), label[:nodes].copy(), first[: nodes + 1].copy(), out


# --- searching -----------------------------------------------------------------------------------


@kernel
def search_texts(
    texts: TextRun, root: int, trie: Trie, programs: Programs, lower: Int32s, most: int
) -> tuple[Int32s, Int32s, Bools, int]:
    """The patterns of a root that hold for each text: text and pattern of each pair, and whether RE2 must still decide.

    Pairs are ascending, each once. Stops at more than `most` pairs. The last number says how many pairs RE2 must
    decide.
    """
    text, pattern = np.empty(64, np.int32), np.empty(64, np.int32)
    asked = np.empty(64, np.bool_)
    count = 0
    longest = 0
    for t in range(len(texts.offsets) - 1):
        longest = max(longest, texts.offsets[t + 1] - texts.offsets[t])
    buffer = np.empty(2 * longest + 4, np.uint8)
    nodes = np.empty(64, np.int32)
    for t in range(len(texts.offsets) - 1):
        if count > most:
            break
        if len(texts.valid) and not texts.valid[t]:
            continue
        begin, end = texts.offsets[t], texts.offsets[t + 1]
        size = fold_text(texts.data, begin, end, lower, buffer)
        nodes, found = _find_nodes(buffer, size, root, trie, nodes)
        before = count
        for k in range(found):
            for i in range(trie.first[nodes[k]], trie.first[nodes[k] + 1]):
                p = trie.pattern[i]
                task = programs.task[p]
                if task in (RUN_EXACT, RUN_LOWER):
                    low, high = programs.start[p], programs.start[p + 1]
                    if (high - low) * (end - begin) > _MOST_STEPS:
                        task = ASK_RE2
                    elif task == RUN_EXACT:
                        if not runs_through(programs.data, low, high, texts.data, begin, end):
                            continue
                    elif not runs_through(programs.data, low, high, buffer, 0, size):
                        continue
                if count == len(text):
                    text, pattern = grow_array(text, count + 1), grow_array(pattern, count + 1)
                    asked = grow_array(asked, count + 1)
                text[count], pattern[count], asked[count] = t, p, task == ASK_RE2
                count += 1
            if count > most:
                break
        if count <= most:
            count = _in_order(pattern, asked, before, count)
    waiting = 0
    for i in range(count):
        waiting += asked[i]
    return text[:count], pattern[:count], asked[:count], waiting


@kernel
def _find_nodes(text: Bytes, size: int, root: int, trie: Trie, nodes: Int32s) -> tuple[Int32s, int]:
    """The nodes with patterns whose needles the text has, each once, ascending."""
    found = 0
    for at in range(size):
        if text[at] & 0xC0 == 0x80:
            continue  # within a character
        node = root
        for i in range(at, size):
            node = _child(trie, node, text[i])
            if node < 0:
                break
            if trie.first[node] < trie.first[node + 1]:
                if found == len(nodes):
                    if found >= _MANY:
                        found = _distinct(nodes, found)
                    if 2 * found > len(nodes):
                        nodes = grow_array(nodes, found + 1)
                nodes[found] = node
                found += 1
    return nodes, _distinct(nodes, found)


@kernel
def _distinct(values: Int32s, count: int) -> int:
    """Sort the first `count` values and drop repetitions; how many are left."""
    if count < 2:
        return count
    ordered = np.sort(values[:count])
    kept = 0
    for i in range(count):
        if i == 0 or ordered[i] != ordered[i - 1]:
            values[kept] = ordered[i]
            kept += 1
    return kept


@kernel
def _in_order(pattern: Int32s, asked: Bools, first: int, past: int) -> int:
    """Sort the patterns of one text and drop repetitions, as several needles may find one; where they end."""
    ordered = True
    for i in range(first + 1, past):
        ordered = ordered and pattern[i] > pattern[i - 1]
    if ordered:
        return past
    keys = np.empty(past - first, np.int64)
    for i in range(first, past):
        keys[i - first] = np.int64(pattern[i]) << 1 | asked[i]
    keys.sort()
    kept = first
    for i in range(len(keys)):
        if i == 0 or keys[i] != keys[i - 1]:
            pattern[kept], asked[kept] = keys[i] >> 1, keys[i] & 1
            kept += 1
    return kept


@kernel
def _child(trie: Trie, node: int, byte: int) -> int:
    """The node that a byte leads to, or -1."""
    first, past = trie.child[node], trie.child[node + 1]
    while past - first > 4:
        middle = (first + past) >> 1
        if trie.label[middle] <= byte:
            first = middle
        else:
            past = middle
    for n in range(first, past):
        if trie.label[n] == byte:
            return int(n)
    return -1


@kernel
def fold_text(data: Bytes, begin: int, end: int, lower: Int32s, out: Bytes) -> int:
    """Write a text in lower case, as `language.folding` has it; its length, at most half as many bytes more."""
    size = 0
    at = begin
    while at < end:
        byte = data[at]
        if byte < 0x80:
            out[size] = byte + 32 if 65 <= byte <= 90 else byte
            size += 1
            at += 1
            continue
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        point = np.int32(byte & (0x3F >> more))
        for i in range(1, more + 1):
            tail = data[at + i] if at + i < end else np.uint8(0x80)
            point = point << 6 | np.int32(tail & 0x3F)
        at += more + 1
        if point < len(lower):
            point = lower[point]
        size = _write(int(point), out, size)
    return size


@kernel
def _write(point: int, out: Bytes, size: int) -> int:
    """A code point in UTF-8; where it ends."""
    if point < 0x80:
        out[size] = point
        return size + 1
    if point < 0x800:
        out[size] = 0xC0 | point >> 6
        out[size + 1] = 0x80 | point & 0x3F
        return size + 2
    if point < 0x10000:
        out[size] = 0xE0 | point >> 12
        out[size + 1] = 0x80 | point >> 6 & 0x3F
        out[size + 2] = 0x80 | point & 0x3F
        return size + 3
    out[size] = 0xF0 | point >> 18
    out[size + 1] = 0x80 | point >> 12 & 0x3F
    out[size + 2] = 0x80 | point >> 6 & 0x3F
    out[size + 3] = 0x80 | point & 0x3F
    return size + 4


@kernel
def runs_through(program: Bytes, p: int, p_end: int, text: Bytes, t: int, t_end: int) -> bool:
    """Whether a text matches a program of LIKE. On a mismatch, goes back to the last wildcard for any text, which then
    takes one character more."""
    back_p, back_t = -1, -1
    while True:
        if p < p_end and program[p] == ANY_TEXT:
            p += 1
            if p == p_end:
                return True
            back_p, back_t = p, t
            continue
        if p == p_end and t == t_end:
            return True
        if p < p_end and t < t_end:
            if program[p] == ANY_CHARACTER:
                p += 1
                t = _next_character(text, t, t_end)
                continue
            if program[p] == text[t]:
                p += 1
                t += 1
                continue
        if back_p < 0 or back_t >= t_end:
            return False
        back_t = _next_character(text, back_t, t_end)
        p, t = back_p, back_t


@kernel
def _next_character(text: Bytes, at: int, end: int) -> int:
    at += 1
    while at < end and text[at] & 0xC0 == 0x80:
        at += 1
    return at
