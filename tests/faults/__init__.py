"""Faults: whatever happens to a running pipeline, nobody loses a notification and nobody gets one twice.

A *world* (`worlds`) is a pipeline of one kind, what goes into it, hostile input included, and an oracle of another make
that says what must have come out. A *life* (`lives`) is a process that runs the pipeline. A *fault* (`faults`) strikes
a life: kills, power cuts, a full disk, a wrong clock, a flipped bit. `endure` puts them together: a life for each
fault, input and subscriptions that change all the time, a last life without a fault, and then the oracle.

A part that comes later joins by a world of its own, and meets every fault.
"""
