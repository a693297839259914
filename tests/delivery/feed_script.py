"""Another process at a feed store: `read` answers each line on its standard input with what it reads, `append` appends
micro-batches without end, and says so after each.
"""

import itertools
import json
import sys

from tests.delivery.feed_model import rows_of

from penstock.delivery.feeds import open_feeds
from penstock.delivery.feeds.segments import SegmentLimits
from penstock.delivery.sinks import Batch

LIMITS = SegmentLimits(blocks=4, merged=3)
ROWS = 20
"""Of a micro-batch."""


def read(place: str) -> None:
    with open_feeds(place) as store:
        for _ in sys.stdin:
            page = store.read([1], -1, 1000, 10**6)
            print(json.dumps([row.id for _, row in page.rows]), flush=True)


def append(place: str) -> None:
    with open_feeds(place, LIMITS) as store:
        done = store.progress("q")
        for number in itertools.count(0 if done is None else done + 1):
            rows = rows_of([[1, 2 + number % 2]] * ROWS, first=number * ROWS, size=5000)
            assert store.append(rows, Batch("q", number, "filter"))
            print(number, flush=True)


if __name__ == "__main__":
    {"read": read, "append": append}[sys.argv[1]](sys.argv[2])
