"""How much the differential tests do, and from which seed. The environment can change both."""

import os
import random


def _number(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


_seed = os.environ.get("PENSTOCK_SEED") or "20240301"
SEED = random.SystemRandom().getrandbits(32) if _seed == "random" else int(_seed)
FILTERS = _number("PENSTOCK_FILTERS", 3_000)
EVENTS = _number("PENSTOCK_EVENTS", 300)
EXAMPLES = _number("PENSTOCK_EXAMPLES", 150)  # of the Hypothesis test
SPARK_FILTERS = _number("PENSTOCK_SPARK_FILTERS", 500)
MUTATIONS = _number("PENSTOCK_MUTATIONS", 3_000)
SPELLINGS = _number("PENSTOCK_SPELLINGS", 400)  # filters, each in several of them
