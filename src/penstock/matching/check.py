"""Is this a filter, and what will it cost?

A subscription that every event must be tested against costs as much as thousands that an index finds. Whoever adds one
is told, in words, before it is there.
"""

from collections.abc import Sequence

import numpy as np

from penstock.errors import FilterError
from penstock.language.infer import infer
from penstock.language.schema import Schema
from penstock.language.shapes import Progress, Shapes
from penstock.matching.compile import compile_groups
from penstock.matching.kernels import Flags
from penstock.matching.plan import Plan

MANY_CONJUNCTIONS = 64


def check(text: str, schema: Schema | None = None) -> list[str]:
    """Check one filter; FilterError if it isn't one. What comes back are warnings of its cost.

    >>> check("price > 5")
    []
    >>> check("price > 5 AND price < 3")
    ['never matches: its conditions contradict each other']
    """
    schema = infer(text) if schema is None else schema
    grouped = Shapes.under(schema).group([text])
    if grouped.errors:
        raise grouped.errors[0][1]
    return cost_warnings(compile_groups(grouped, schema, np.zeros(1, np.int64)))


def check_many(
    texts: Sequence[str | None], schema: Schema | None = None, progress: Progress | None = None
) -> list[tuple[int, FilterError]]:
    """Check many filters, sharing one parse among those of one shape. Returns the bad ones by position."""
    return Shapes.under(schema).group(texts, progress).errors


def cost_warnings(plan: Plan) -> list[str]:
    """What is expensive about a plan of one subscription."""
    lengths = np.diff(plan.conjunction_start)
    if not len(lengths):
        return ["never matches: its conditions contradict each other"]
    if not lengths.all():
        return ["matches every event"]
    warnings = []
    if len(lengths) > MANY_CONJUNCTIONS:
        warnings.append(
            f"is a disjunction of {len(lengths)} conjunctions, each of which is matched for itself: "
            "IN lists and several subscriptions are cheaper"
        )
    indexable = _indexable(plan)
    alone = [
        not indexable[a:b].any()
        for a, b in zip(plan.conjunction_start[:-1], plan.conjunction_start[1:], strict=True)
    ]
    if any(alone):
        warnings.append(
            "has no predicate that an index can use (an equality, a range or a prefix): "
            "every event is tested against it"
        )
    return warnings


def _indexable(plan: Plan) -> Flags:
    """A predicate that leaves out a whole side of its attribute's values."""
    attribute = plan.tested_attribute
    everything: Flags = (plan.predicate_low <= 1) & (
        plan.predicate_high == plan.last_cells[attribute]
    )
    real: Flags = attribute < len(plan.domains)
    return real & ~everything
