"""How much is measured, and for how long, unless somebody says otherwise. It imports nothing: `--help` shows it."""

SIZES = (10_000, 100_000, 1_000_000)  # subscriptions
BUDGET = 2.0  # seconds for each figure
PATIENCE = 120.0  # seconds for setting something up, as far as that can be foreseen
BATCH = 8_192  # events that an engine is given at once: about what a Spark task hands it
MASTER = "local[2]"

OVERHEAD_WORKLOADS = ("ranges", "stock", "equality-1000")
OVERHEAD_SUBSCRIPTIONS = 100_000
OVERHEAD_EVENTS = 1_000_000

OPERATOR_EVENTS = 100  # the paper has 1,000; the standard error is about 2 % with these
OPERATOR_RUNS = 2  # instances drawn

JOIN_EVENTS = 10_000  # the paper has 59,000
JOIN_SUBSCRIPTIONS = 100_000

HOSTILE_SUBSCRIPTIONS = 10_000
HOSTILE_TESTS = 9_990

PIPELINE_SIZES = (1_000, 100_000, 1_000_000)  # subscriptions
PIPELINE_WORKLOADS = ("equality-1000", "stock")
PIPELINE_EVENTS = 500_000  # in a micro-batch
PIPELINE_BATCHES = 3
PIPELINE_PAYLOAD = 1_024  # bytes of an event that no filter looks at
PIPELINE_SECONDS = 20.0  # of publishing at half load
PIPELINE_PATTERNS = 10_000  # at most
PIPELINE_DOCUMENTS = 200  # in a micro-batch

SERVICE_SIDES = ("live", "spark")
SERVICE_SECONDS = 10.0  # of publishing
SERVICE_READERS = (1_000, 10_000)  # connected at once

NETWORK_EVENTS = 1_000  # the paper has 59,000
