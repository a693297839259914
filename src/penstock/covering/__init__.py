"""Which subscription covers which: keeping the set of subscriptions as small as possible.

    regions            a filter as the set of events that it matches, exactly: a union of boxes
    reading            a filter's text as its region
    distributions      how values are distributed, and the chance that an event lies in a region
    boxes, cover_index many regions in flat arrays (coordinates), and a search for those that include a region or lie in
    it
    frontier           the subscriptions that no other covers, kept while they come and go
    bulk, cover_tree   the same for many at once, from boxes that don't change (tree_building)
    from_plan          a compiled plan's conjunctions as boxes
    merge_pool         fewer boxes in place of many: perfect_merging, then imperfect_merging
                       (chances, merge_loss: what that lets through in vain; merge_policy: when it is done)
    routing_table      frontier and mergers, kept while subscriptions and advertisements come and go
    interest/          a small filter for a source, for all that any subscription matches: `penstock.interest`
    report             who covers whom in a registry: `subs.covering()`; spread_search: on the cores of a cluster

This room imports the language and, of matching, compiling and the parts of a plan.
"""
