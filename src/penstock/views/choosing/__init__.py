"""Which rewriting each view is fed by (delta §2 and §3).

- `cost_model`, `capacities`: what rewritings cost, and how much everybody may feed;
- `choosing`: the configuration of least utilisation; by way of `program`, `lagrangian`, `repair`, `augment`, `solver`;
- `infeasible`: what makes it impossible;
- `loga`: shorter paths; by way of `feeding`, `user_lists`;
- `configuration`: levels and latencies of a configuration, and what exceeds a capacity;
- `running`: who feeds whom while views come and go.
"""
