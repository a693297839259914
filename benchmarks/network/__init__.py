"""The network's experiments, and the simulator that runs its brokers."""
