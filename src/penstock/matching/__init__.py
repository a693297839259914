"""Normalised subscriptions -> plan -> matches. Imports no Spark, no database."""

from typing import TYPE_CHECKING

from penstock.base.fronts import front

if TYPE_CHECKING:
    from penstock.matching.check import Examined, check, check_many, examine, examine_many
    from penstock.matching.compile import compile_plan
    from penstock.matching.engines import ENGINES, check_engine, variants
    from penstock.matching.explain import Explanation
    from penstock.matching.live import LiveMatcher
    from penstock.matching.matcher import Matcher
    from penstock.matching.operator_stage import OperatorFailure
    from penstock.matching.plan import Plan
    from penstock.matching.snapshots import Published, SnapshotRef, SnapshotStore, open_matcher
    from penstock.matching.stats import Stats
    from penstock.matching.subscription_rows import FOREVER, Changes, Rows, SubscriptionSource

__getattr__ = front(
    "penstock.matching",
    {
        "check": ("Examined", "check", "check_many", "examine", "examine_many"),
        "compile": ("compile_plan",),
        "engines": ("ENGINES", "check_engine", "variants"),
        "explain": ("Explanation",),
        "live": ("LiveMatcher",),
        "matcher": ("Matcher",),
        "operator_stage": ("OperatorFailure",),
        "plan": ("Plan",),
        "subscription_rows": ("FOREVER", "Changes", "Rows", "SubscriptionSource"),
        "snapshots": ("Published", "SnapshotRef", "SnapshotStore", "open_matcher"),
        "stats": ("Stats",),
    },
)

__all__ = [
    "ENGINES",
    "FOREVER",
    "Changes",
    "Examined",
    "Explanation",
    "LiveMatcher",
    "Matcher",
    "OperatorFailure",
    "Plan",
    "Published",
    "Rows",
    "SnapshotRef",
    "SnapshotStore",
    "Stats",
    "SubscriptionSource",
    "check",
    "check_engine",
    "check_many",
    "compile_plan",
    "examine",
    "examine_many",
    "open_matcher",
    "variants",
]
