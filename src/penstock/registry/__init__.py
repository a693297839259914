"""Who subscribed to what: tickets, leases, a change feed.

Read `registry` first (and `readable_registry`, which it adds to), then `subscriptions`: the registry as its users see
it, and what is made of its filters. Below:

- `tickets`, `leases`, `paces`, `limits`, `records`: what a subscription has, and may have;
- `schemas`, `catalogs`: what all filters must fit, and all select-joins; `spending`: what they may cost;
- `kinds`: filters and select-joins, each kind apart;
- `set_aside`: those that were ended because they harmed others; `bad_rows`: rows that nobody can read;
- `details`: external ids, metadata, paces; `addresses`: subscribers with metadata; `history`: how subscriptions ended;
  `held_back`: what pipelines held back because of paces;
- `incoming`, `incoming_files`, `row_checks`, `loaded_before`, `load`: a million subscriptions at once, again and again;
- `store`, `queries`: reading, one state at a time, and the change feed;
- `turns`: writing, one at a time, and which numbers changes get;
- `tables`, `databases`: how it is kept; `sqlite`, `postgresql`: what differs between the two.
"""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.registry.leases import Lease
    from penstock.registry.limits import Limits
    from penstock.registry.load import LoadReport
    from penstock.registry.records import Subscribed, Subscription
    from penstock.registry.subscriptions import Subscriptions

__getattr__ = front(
    "penstock.registry",
    {
        "leases": ("Lease",),
        "limits": ("Limits",),
        "load": ("LoadReport",),
        "records": ("Subscribed", "Subscription"),
        "subscriptions": ("Subscriptions",),
    },
)

__all__ = ["Lease", "Limits", "LoadReport", "Subscribed", "Subscription", "Subscriptions"]
