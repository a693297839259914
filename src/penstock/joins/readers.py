"""Who reads a message: the subscriptions whose stateless filters it satisfies.

This is what brokers, or a matching stage after the semijoins, do with a message and nothing but the message. Here it is
done on the rectangles of a group, for subscribers of the same process, and for the schemes that send to each one apart.
`filters` gives the same filters as text for the ordinary engines, which find the same.
"""

from typing import Any

import numpy as np

from penstock.arrays import Int32s, Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.messages import BASE, DROPPED, EXPOSED, JOINED, SELECTED, Messages
from penstock.joins.rectangles import MANY, Rectangles, all_inside

_SHARED = 16  # times as many rectangles as read one message may be asked for each that is like it
_FEW = 64


@kernel
def _boxed(box: Int64s, form: int, c: int, below: int, above: int) -> None:
    """What a message asks of rectangles, but for its coordinate a and its points."""
    box[:4], box[4:] = NOWHERE, BEYOND
    if form in (EXPOSED, DROPPED):
        box[2], box[6], box[3], box[7] = below + 1, c, c, above - 1
    if form == JOINED:
        box[6], box[3] = c, c


@kernel
def _search(
    tree: Any, box: Int64s, form: int, x: Int64s, y: Int64s, begin: int, end: int, out: Int32s, at: int,
    most: int, seen: Int64s, mark: int,
) -> int:  # fmt: skip
    """The rectangles in a box that some point of a message touches, each once; past the end of `out` it may stop."""
    if form in (EXPOSED, SELECTED, JOINED):
        return int(all_inside(tree, box, out, at, most))
    d = 2 if form == BASE else 0
    last = at
    for p in range(begin, end):
        box[d + 4], box[d + 1] = x[p], y[p]
        more = all_inside(tree, box, out, last, most)
        if more > len(out) or more > most:
            return int(max(more, len(out) + 1))
        for q in range(last, more):
            if seen[out[q]] != mark:
                seen[out[q]] = mark
                out[last] = out[q]
                last += 1
    return int(last)


@kernel
def _is_alike(messages: Any, i: int, j: int) -> bool:
    """Whether two messages differ at most in their coordinates a."""
    form, _, c, below, above, start, x, y = messages
    count = start[i + 1] - start[i]
    if form[i] != form[j] or c[i] != c[j] or below[i] != below[j] or above[i] != above[j]:
        return False
    if form[i] == DROPPED or count != start[j + 1] - start[j]:
        return False
    same = True
    for p in range(count):
        same = same and x[start[i] + p] == x[start[j] + p] and y[start[i] + p] == y[start[j] + p]
    return same


@kernel
def _read_all(
    tree: Any, messages: Any, turn: Int64s, first: int, out: Int32s, ends: Int64s, seen: Int64s,
    shared: Int32s, spans: Int64s,
) -> int:  # fmt: skip
    """The rectangles that read each message, from the first turn on, as long as there is room; whose turn is next.

    Messages that differ in their coordinates only are read together: who reads one of them wherever it lies is searched
    once, and then asked for each coordinate. Unless these are many more than read the first of them.
    """
    form, a, c, below, above, start, x, y = messages
    corners = tree[8]
    at = int(ends[first - 1]) if first else 0
    box = np.empty(8, np.int64)
    together = -1  # how many are shared by messages like the one before; -1: none
    k = first
    while k < len(turn):
        i = turn[k]
        is_like = k > first and _is_alike(messages, turn[k - 1], i)
        if not is_like:
            together = -1
        if is_like and together < 0 and k + 2 < len(turn) and _is_alike(messages, i, turn[k + 2]):
            _boxed(box, form[i], c[i], below[i], above[i])
            most = min(len(shared), _SHARED * (ends[k - 1] - (ends[k - 2] if k > 1 else 0) + _FEW))
            count = _search(
                tree,
                box,
                form[i],
                x,
                y,
                start[i],
                start[i + 1],
                shared,
                0,
                most,
                seen,
                len(turn) + k,
            )
            if count <= most:
                together = count
                for q in range(count):
                    spans[q, 0], spans[q, 1] = corners[shared[q], 0], corners[shared[q], 1]
        if is_like and together >= 0:
            if at + together > len(out):
                return int(k)
            for q in range(together):
                if spans[q, 0] <= a[i] <= spans[q, 1]:
                    out[at] = shared[q]
                    at += 1
        else:
            _boxed(box, form[i], c[i], below[i], above[i])
            if form[i] != DROPPED:
                box[4], box[1] = a[i], a[i]
            last = _search(tree, box, form[i], x, y, start[i], start[i + 1], out, at, MANY, seen, k)
            if last > len(out):
                return int(k)
            at = last
        ends[k] = at
        k += 1
    return int(k)


@kernel
def _in_turn(turn: Int64s, ends: Int64s, found: Int32s, where: Int64s, out: Int32s) -> None:
    """Put what was found turn by turn where each message has its place."""
    for k in range(len(turn)):
        begin = ends[k - 1] if k else 0
        to = where[turn[k]]
        for q in range(begin, ends[k]):
            out[to + q - begin] = found[q]


def _turns(messages: Messages) -> Int64s:
    """An order in which messages that differ in their coordinates only follow each other, mostly."""
    points = np.concatenate([np.zeros(1, np.int64), np.cumsum(messages.x * 31 + messages.y * 17)])
    sums = points[messages.start[1:]] - points[messages.start[:-1]]
    return np.lexsort((sums, messages.above, messages.below, messages.c, messages.form))


def readers(rectangles: Rectangles, messages: Messages) -> tuple[Int64s, Int64s]:
    """Who reads which message: message and subscription, in the order of the messages."""
    count = len(messages)
    if not count or not len(rectangles):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    turn = _turns(messages)
    ends = np.zeros(count, np.int64)
    size = len(rectangles.corners)
    seen = np.full(size, -1, np.int64)
    out = np.empty(max(1 << 14, 2 * size), np.int32)
    scratch = np.empty(size, np.int32), np.empty((size, 2), np.int64)
    flat = (
        messages.form, messages.a, messages.c, messages.below, messages.above, messages.start, messages.x,
        messages.y,
    )  # fmt: skip
    first = 0
    while True:
        first = _read_all(rectangles.tree, flat, turn, first, out, ends, seen, *scratch)
        if first == count:
            break
        seen[:] = -1
        out = np.concatenate([out, np.empty(len(out), np.int32)])
    per_turn = np.diff(ends, prepend=0)
    per_message = np.empty(count, np.int64)
    per_message[turn] = per_turn
    found = np.empty(ends[-1], np.int32)
    _in_turn(turn, ends, out, np.cumsum(per_message) - per_message, found)
    subscriptions, per_rectangle = rectangles.members(found)
    which = np.repeat(np.repeat(np.arange(count), per_message), per_rectangle)
    return which, subscriptions
