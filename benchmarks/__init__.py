"""Frozen workloads, measured in one run and reported as ratios. `make bench` runs them; tests never assert a time."""
