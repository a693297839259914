"""Networks of brokers: what crosses their links, beside the papers' figures."""
