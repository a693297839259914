"""Who subscribed to what: tickets, leases, a change feed.

Read `registry` first, then `subscriptions`: the registry as its users see it, and what is made of its filters. Below:

- `tickets`, `leases`, `limits`, `records`: what a subscription has, and may have;
- `schemas`: what all filters must fit;
- `sources`, `load`: a million subscriptions at once;
- `store`, `queries`: reading, one state at a time, and the change feed;
- `turns`: writing, one at a time, and which numbers changes get;
- `tables`, `databases`: how it is kept, and what differs between SQLite and PostgreSQL.
"""

from penstock.registry.leases import Lease
from penstock.registry.load import LoadReport
from penstock.registry.records import Subscribed, Subscription
from penstock.registry.subscriptions import Subscriptions

__all__ = ["Lease", "LoadReport", "Subscribed", "Subscription", "Subscriptions"]
