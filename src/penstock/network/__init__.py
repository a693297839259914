"""Brokers that route by content: advertisements, subscriptions (covered and merged) and events between machines.

broker          the state machine: message and time in, messages out;  broker_steps: what goes in and comes out
links           how frames get from one broker to another: Zenoh, NATS, within a process
host            runs a broker: threads, disk, clients;  host_store, client_desk, mail_delivery: its parts
payload         bulky attributes that cross each link once (CN*)
network_client  a client of a broker: subscribes, advertises, publishes, reads
tables          select-joins over a network: a publisher of tables, and views of selects that are followed
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.network.links.link import NetworkError
    from penstock.network.network_client import NetworkClient, ReceivedMail
    from penstock.network.tables.select_follower import SelectFollower
    from penstock.network.tables.table_publisher import TablePublisher

__getattr__ = front(
    "penstock.network",
    {
        "links.link": ("NetworkError",),
        "network_client": ("NetworkClient", "ReceivedMail"),
        "tables.select_follower": ("SelectFollower",),
        "tables.table_publisher": ("TablePublisher",),
    },
)

__all__ = ["NetworkClient", "NetworkError", "ReceivedMail", "SelectFollower", "TablePublisher"]
