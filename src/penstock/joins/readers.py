"""Who reads a message: the subscriptions whose stateless filters it satisfies.

This is what brokers, or a matching stage after the semijoins, do with a message and nothing but the message. Here it is
done on the rectangles of a group, for subscribers of the same process, and for the schemes that send to each one apart.
`filters` gives the same filters as text for the ordinary engines, which find the same.
"""

from typing import Any

import numpy as np

from penstock.arrays import Int8s, Int32s, Int64s
from penstock.jit import kernel
from penstock.joins.coordinates import BEYOND, NOWHERE
from penstock.joins.messages import BASE, DROPPED, EXPOSED, JOINED, SELECTED, Messages
from penstock.joins.rectangles import Rectangles, all_inside


@kernel
def _read_all(
    tree: Any, form: Int8s, a: Int64s, c: Int64s, below: Int64s, above: Int64s, start: Int64s, x: Int64s,
    y: Int64s, first: int, out: Int32s, ends: Int64s, seen: Int64s,
) -> int:  # fmt: skip
    """The rectangles that read each message from the first on, as long as there is room; which message is next."""
    at = int(ends[first - 1]) if first else 0
    for i in range(first, len(form)):
        box = np.empty(8, np.int64)
        box[:4], box[4:] = NOWHERE, BEYOND
        if form[i] != DROPPED:
            box[4], box[1] = a[i], a[i]
        if form[i] == EXPOSED or form[i] == DROPPED:
            box[2], box[6], box[3], box[7] = below[i] + 1, c[i], c[i], above[i] - 1
        if form[i] == JOINED:
            box[6], box[3] = c[i], c[i]
        if form[i] == EXPOSED or form[i] == SELECTED or form[i] == JOINED:
            last = all_inside(tree, box, out, at)
            if last > len(out):
                return i
        else:
            d = 2 if form[i] == BASE else 0
            last = at
            for p in range(start[i], start[i + 1]):
                box[d + 4], box[d + 1] = x[p], y[p]
                more = all_inside(tree, box, out, last)
                if more > len(out):
                    return i
                for q in range(last, more):
                    if seen[out[q]] != i:
                        seen[out[q]] = i
                        out[last] = out[q]
                        last += 1
        at = last
        ends[i] = at
    return len(form)


def readers(rectangles: Rectangles, messages: Messages) -> tuple[Int64s, Int64s]:
    """Who reads which message: message and subscription, in the order of the messages."""
    count = len(messages)
    if not count or not len(rectangles):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ends = np.zeros(count, np.int64)
    seen = np.full(len(rectangles.corners), -1, np.int64)
    out = np.empty(max(1 << 14, len(rectangles.corners)), np.int32)
    of_form = (messages.form, messages.a, messages.c, messages.below, messages.above)
    points = (messages.start, messages.x, messages.y)
    first = 0
    while True:
        first = _read_all(rectangles.tree, *of_form, *points, first, out, ends, seen)
        if first == count:
            break
        seen[:] = -1
        out = np.concatenate([out, np.empty(len(out), np.int32)])
    per_message = np.diff(ends, prepend=0)
    subscriptions, per_rectangle = rectangles.members(out[: ends[-1]])
    which = np.repeat(np.repeat(np.arange(count), per_message), per_rectangle)
    return which, subscriptions
