"""Who subscribed to what: tickets, leases, a change feed.

Read `registry` first, with `readable_registry`, which it extends: the registry as its users see it. Then read
`subscriptions`, which compiles its filters. Below:

- `records`, `tickets`, `leases`, `paces`: the parts of a subscription; `limits`: how large and expensive it may be;
- `schemas`, `catalogs`: what filters and select-joins must fit; `spending`: what subscriptions cost;
- `kinds`, `kind_sources`: filters, select-joins and tree patterns; the subscriptions of one kind;
- `set_aside`: subscriptions that were ended because they harmed others; `bad_rows`, `checksums`: damaged rows;
- `details`: external ids, metadata, paces; `addresses`: subscribers with metadata; `history`: how subscriptions ended;
  `held_back`: how much pipelines held back because of paces;
- `incoming`, `incoming_files`, `row_checks`, `loaded_before`, `load`: a million subscriptions at once, again and again;
- `store`, `queries`: reading, one state at a time, and the change feed;
- `turns`: writing, one turn at a time, and the numbering of changes;
- `tables`, `upgrades`: the tables, and those of earlier formats; `databases`: what they are kept in; `sqlite`,
  `postgresql`: what differs between the two.
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
