"""How frames get from one broker, or client, to another.

link             the small interface that brokers see
zenoh_link       between machines, with a router of Zenoh in each broker's own process
nats_link        between machines, over a NATS server that is there already
in_process_link  within one process

A link may lose frames, repeat them and change their order: sessions (`network.session`) put that right, so no link has
to. A link never waits: what it can't send at once it drops.
"""
