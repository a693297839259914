"""How much the tests do: `make test` the least that is telling, `make test-long` many times that (PENSTOCK_LONG).

Every test that has a number takes it from here, or from Hypothesis, whose examples `conftest.py` multiplies.
"""

import os
import random

LONG = int(os.environ.get("PENSTOCK_LONG") or 1)
"""How many times more than `make test`."""

PATIENCE = 1500
"""Seconds after which something hangs, however busy the machine is. No test waits that long for what does come."""

_seed = os.environ.get("PENSTOCK_SEED") or "20240301"
SEED = random.SystemRandom().getrandbits(32) if _seed == "random" else int(_seed)
"""Of the tests that draw for themselves: the same each time, unless a run is to search elsewhere."""

EXAMPLES = 0.4 if LONG == 1 else LONG
"""Of Hypothesis, times those that a test asks for. `make test` draws the same ones each time, so a few do; it is
`make test-long` that searches."""
FILTERS = 2_000 * LONG
EVENTS = 300
SPARK_FILTERS = 500 * LONG
MUTATIONS = 3_000 * LONG
SPELLINGS = 200 * LONG
"""Filters, each in several spellings."""
LINES = 3_000 * LONG
"""Of pieces of JSON, most of them no record."""
SEEDS = LONG
"""Of small worlds that are drawn from one: select-joins, their stages."""
KILLS = LONG // 2
"""Of a running pipeline, at random moments, besides those at chosen ones."""
FLIPS = 150 * LONG
"""Of bits, in each kind of file."""
FORGERIES = 60 * LONG
"""Plans with a changed array."""
SERVICE_KILLS = 3 if LONG == 1 else 6 * LONG
"""Of a running service, or of what belongs to it, while events are published and feeds are read."""
NETWORKS = 1_000 if LONG == 1 else 10_000
"""Of simulated brokers over bad links, each with its own faults."""
TRIGGER = "1 second"
"""Of pipelines that go on while a test waits for something else: seldom enough that they cost little meanwhile."""
FEED_KILLS = 6 * LONG
"""Of a process that appends to a feed store."""
