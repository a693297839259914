"""How much is measured unless somebody says otherwise. It imports nothing: `--help` shows it."""

EVENTS = 10_000  # the paper has 59,000
SUBSCRIPTIONS = 100_000
