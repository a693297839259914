"""Which subscription covers which: keeping the set of subscriptions as small as it can be.

    regions            a filter as the set of events that it matches, exactly: a union of boxes
    reading            a filter's text as its region
    distributions      what events are like, and how likely one is in a region
    boxes, cover_index many regions in flat arrays (coordinates), and a search for those that include one, or lie in it
    frontier           the subscriptions that no other covers, kept while they come and go
    bulk, cover_tree   the same for many at once, from boxes that stand still (tree_building)
    from_plan          a compiled plan's conjunctions as boxes
    merge_pool         fewer boxes in place of many: perfect_merging, then imperfect_merging
                       (chances, merge_loss: what that lets through for nobody; merge_policy: when)
    routing_table      frontier and mergers, kept while subscriptions and advertisements come and go
    interest/          all subscriptions as a small filter for a source: `penstock.interest`
    report             who covers whom in a registry: `subs.covering()`; spread_search: on the cores of a cluster

It imports the language and of matching what a plan is made of: rows, cells, labels.
"""
