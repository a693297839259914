"""How frames get from one broker, or client, to another.

link             the small interface that brokers see
zenoh_link       between machines, with a router of Zenoh in each broker's own process
nats_link        between machines, over a NATS server that is there already
in_process_link  within one process

A link may lose frames, repeat them and change their order: sessions (`network.neighbour_session`) put that right, so no
link has to. A link never waits: it drops what it can't send at once.
"""
