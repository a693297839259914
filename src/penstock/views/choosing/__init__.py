"""Chooses the rewriting that feeds each view (delta §2 and §3).

- `cost_model`, `capacities`: the costs of rewritings, and how many views each view and the source may feed;
- `choosing`: the configuration of least utilisation; by way of `program`, `lagrangian`, `repair`, `augment`, `solver`;
- `infeasible`: why no configuration keeps to the capacities;
- `loga`: shorter paths; by way of `feeding`, `user_lists`;
- `configuration`: levels and latencies of a configuration, and the capacities that it exceeds;
- `running`: who feeds whom while views come and go.
"""
