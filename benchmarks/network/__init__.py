"""Networks of brokers: what crosses their links, beside the papers' figures; and the simulator that runs them."""
