"""In which order attributes stand in a diagram, top first (mbd §3.2).

Conjunctions share what they have in common from the bottom. So attributes that many ask for, and of which they ask for
the same few things, should be at the bottom. mbd §3.2 names frequency and distribution, and doesn't say how the two are
weighed. Here an attribute's weight is the number of pairs of uses that ask for the same: an attribute used f times in
predicates used f1, f2, … times has f1² + f2² + …, which is f² if all ask for the same, and f if nobody does.

What stands in no order comes above everything else when it is met: attributes that nobody had heard of are rare.
"""

import random
from collections import Counter
from collections.abc import Iterable

from penstock.covering.regions import Region
from penstock.language.calls import Path


def order_by_statistics(regions: Iterable[Region]) -> list[Path]:
    """Attributes from the least often to the most often asked for the same.

    >>> from penstock.language.values import Values
    >>> one, two = Values(((1, 2),)), Values(((2, 3),))
    >>> boxes = [((("day",), one), (("price",), one)), ((("day",), one), (("price",), two)), ((("qty",), one),)]
    >>> order_by_statistics([Region((box,)) for box in boxes])
    [('qty',), ('price',), ('day',)]
    """
    predicates = Counter(test for region in regions for box in region.boxes for test in box)
    weights: Counter[Path] = Counter()
    for (path, _), uses in predicates.items():
        weights[path] += uses * uses
    return sorted(weights, key=lambda path: (weights[path], path))


def random_order(paths: Iterable[Path], seed: int) -> list[Path]:
    """Attributes in any order, the same for the same seed.

    >>> sorted(random_order([("a",), ("b",)], seed=1))
    [('a',), ('b',)]
    """
    order = sorted(set(paths))
    random.Random(seed).shuffle(order)
    return order
