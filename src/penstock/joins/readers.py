"""Finds the readers of messages: the subscriptions whose stateless filters a message satisfies.

A broker could do this with nothing but the message. Here it is done with the rectangles of a group. The ordinary
engines find the same readers if subscriptions are filters over messages, as a test shows.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Int8s, Int32s, Int64s, grow_array, offsets
from penstock.base.jit import kernel
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.messages import BASE, DROPPED, EXPOSED, SELECTED, Messages
from penstock.joins.rectangle_tree import MANY, RectangleTree, Stairs, all_inside, all_touched
from penstock.joins.rectangles import RectangleChains, Rectangles
from penstock.joins.runs import first_at_least

_FEW = 4  # the readers of fewer messages that are alike are searched for one by one
_WORTH = 1024  # rectangles that may be found in vain to save the search for one message


class MessageArrays(NamedTuple):
    """The descriptions of messages, as `Messages` has them."""

    form: Int8s
    a: Int64s
    c: Int64s
    below: Int64s
    above: Int64s
    start: Int64s
    x: Int64s
    y: Int64s


class _Reading(NamedTuple):
    """The order in which messages are read, and the rectangles that read them: those of turn k end at ends[k]."""

    turn: Int64s
    ends: Int64s
    found: Int32s
    shared: Int32s  # room for the rectangles of messages that are alike


@kernel
def _open_box(box: Int64s, form: int, c: int, below: int, above: int) -> None:
    """Set a box to a message's conditions on rectangles, except those of its coordinate a and its points."""
    box[:4], box[4:] = NOWHERE, BEYOND
    if form in (EXPOSED, DROPPED):
        box[2], box[6], box[3], box[7] = below + 1, c, c, above - 1


@kernel
def _stairs(dimension: int, x: Int64s, y: Int64s) -> Stairs:
    """The points of a message as stairs."""
    order = np.argsort(x)
    lowest = y[order]
    for p in range(len(x) - 2, -1, -1):
        lowest[p] = min(lowest[p], lowest[p + 1])
    return Stairs(dimension, x[order], lowest)


@kernel
def _search(
    tree: RectangleTree, box: Int64s, messages: MessageArrays, i: int, out: Int32s, most: int
) -> int:
    """The rectangles in a box that some point of message i touches; past the end of `out` they are only counted."""
    form = messages.form[i]
    if form in (EXPOSED, SELECTED):
        return int(all_inside(tree, box, out, 0, most))
    begin, end = messages.start[i], messages.start[i + 1]
    stairs = _stairs(2 if form == BASE else 0, messages.x[begin:end], messages.y[begin:end])
    return int(all_touched(tree, box, stairs, out, 0, most))


@kernel
def _is_alike(messages: MessageArrays, i: int, j: int) -> bool:
    """Whether two messages differ at most in their coordinates a."""
    form, c, below, above = messages.form, messages.c, messages.below, messages.above
    start, x, y = messages.start, messages.x, messages.y
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
def _run_end(messages: MessageArrays, turn: Int64s, k: int) -> int:
    """Where the run of messages ends that differ from the one whose turn is k only in their coordinates a."""
    end = k + 1
    while end < len(turn) and _is_alike(messages, turn[end - 1], turn[end]):
        end += 1
    return int(end)


@kernel
def _share_out(corners: Int64s, a: Int64s, shared: Int32s, out: Int32s, ends: Int64s) -> int:
    """Give each of the ascending coordinates a the rectangles that span it; how many, which may be too many for `out`.

    The messages that a rectangle reads are neighbours: two searches find them, however many they are.
    """
    places = np.zeros(len(a) + 1, np.int64)
    spans = np.empty((len(shared), 2), np.int32)
    for q in range(len(shared)):
        spans[q, 0] = first_at_least(a, 0, len(a), corners[shared[q], 0])
        spans[q, 1] = first_at_least(a, 0, len(a), corners[shared[q], 1] + 1)
        if spans[q, 0] < spans[q, 1]:
            places[spans[q, 0]] += 1
            places[spans[q, 1]] -= 1
    last = 0
    count = 0
    for j in range(len(a)):
        count += places[j]
        places[j] = last
        last += count
        ends[j] = last
    if last > len(out):
        return int(last)
    for q in range(len(shared)):
        for j in range(spans[q, 0], spans[q, 1]):
            out[places[j]] = shared[q]
            places[j] += 1
    return int(last)


@kernel
def _sort_by_subscription(rectangles: Int32s, head: Int32s) -> None:
    """Sort rectangles by their first subscription, so that readers need hardly be sorted."""
    keys = np.empty(len(rectangles), np.int64)
    for q in range(len(rectangles)):
        keys[q] = (np.int64(head[rectangles[q]]) << 32) | rectangles[q]
    keys.sort()
    for q in range(len(rectangles)):
        rectangles[q] = keys[q] & 0xFFFFFFFF


@kernel
def _read_all(
    tree: RectangleTree, head: Int32s, messages: MessageArrays, reading: _Reading, first: int
) -> int:
    """Find the rectangles that read each message, from turn `first` on, as long as there is room; whose turn is next.

    Messages that differ only in their coordinates a are read together: the rectangles that would read such a message
    with any a are searched for once, and then shared out among the messages. This isn't done for few messages, or many
    rectangles.
    """
    form, a = messages.form, messages.a
    turn, ends, found, shared = reading.turn, reading.ends, reading.found, reading.shared
    at = int(ends[first - 1]) if first else 0
    box = np.empty(8, np.int64)
    k = first
    end = first  # of the run that k is in
    while k < len(turn):
        i = turn[k]
        _open_box(box, form[i], messages.c[i], messages.below[i], messages.above[i])
        if k == end:
            end = _run_end(messages, turn, k)
            if end - k >= _FEW:
                most = min(len(shared), _WORTH * (end - k))
                count = _search(tree, box, messages, i, shared, most)
                if count <= most:
                    _sort_by_subscription(shared[:count], head)
                    alike, places = a[turn[k:end]], ends[k:end]
                    more = _share_out(tree.corners, alike, shared[:count], found[at:], places)
                    if at + more > len(found):
                        return int(k)
                    for j in range(len(places)):
                        places[j] += at
                    at += more
                    k = end
                    continue
        if form[i] != DROPPED:
            box[4], box[1] = a[i], a[i]
        at += _search(tree, box, messages, i, found[at:], MANY)
        if at > len(found):
            return int(k)
        ends[k] = at
        k += 1
    return int(k)


class Readers(NamedTuple):
    """Who reads which message: the subscriptions numbers[start[m]:start[m + 1]] read message m."""

    start: Int64s
    numbers: Int64s

    def counts(self) -> Int64s:
        """How many read each message."""
        return np.diff(self.start)

    def which(self) -> Int64s:
        """The message of each number."""
        return np.repeat(np.arange(len(self.start) - 1), self.counts())

    def keep(self, keep: Bools) -> "Readers":
        """Only the numbers that `keep` marks."""
        return Readers(offsets(keep)[self.start], self.numbers[keep])


@kernel
def _in_turn(reading: _Reading, chains: RectangleChains, start: Int64s) -> Int64s:
    """The subscriptions of the rectangles that were found, message by message; where those of each message start."""
    turn, ends, found = reading.turn, reading.ends, reading.found
    head, following = chains.head, chains.following
    count = 0
    for k in range(len(turn)):
        before = count
        for q in range(ends[k - 1] if k else 0, ends[k]):
            s = head[found[q]]
            while s >= 0:
                count += 1
                s = following[s]
        start[turn[k] + 1] = count - before
    for m in range(len(turn)):
        start[m + 1] += start[m]
    numbers = np.empty(count, np.int64)
    for k in range(len(turn)):
        at = start[turn[k]]
        for q in range(ends[k - 1] if k else 0, ends[k]):
            s = head[found[q]]
            while s >= 0:
                numbers[at] = s
                at += 1
                s = following[s]
    return numbers


def _turns(messages: Messages) -> Int64s:
    """An order in which messages that differ only in their coordinates a mostly follow each other, ascending."""
    sums = np.diff(offsets(messages.x * 31 + messages.y * 17)[messages.start])
    return np.lexsort((messages.a, sums, messages.above, messages.below, messages.c, messages.form))


def readers(rectangles: Rectangles, messages: Messages) -> Readers:
    """Who reads which message."""
    count = len(messages)
    start = np.zeros(count + 1, np.int64)
    if not count or not len(rectangles):
        return Readers(start, np.empty(0, np.int64))
    size = len(rectangles.tree.corners)
    reading = _Reading(
        turn=_turns(messages),
        ends=np.zeros(count, np.int64),
        found=np.empty(max(1 << 14, 2 * size), np.int32),
        shared=np.empty(size, np.int32),
    )
    flat = MessageArrays(*(getattr(messages, name) for name in MessageArrays._fields))
    first = 0
    while True:
        first = _read_all(rectangles.tree, rectangles.chains.head, flat, reading, first)
        if first == count:
            break
        reading = reading._replace(found=grow_array(reading.found, len(reading.found) + 1))
    return Readers(start, _in_turn(reading, rectangles.chains, start))
