"""Operators that do real work: where an event happened, and what its picture shows.

    regions   in_area, near, distance_from: New York's boroughs and some places, with shapely
    images    crowd, objects, chase, traffic: coloured blobs in a picture from above, with Pillow and SciPy

They need packages that Penstock itself doesn't: `pip install 'penstock[operators]'`.
"""

from penstock.operators.define import Operators
from penstock.operators.library.areas import distance_from, in_area, near
from penstock.operators.library.images import chase, crowd, objects, traffic

OPERATORS = Operators(in_area, near, distance_from, crowd, objects, chase, traffic)

__all__ = [
    "OPERATORS",
    "chase",
    "crowd",
    "distance_from",
    "in_area",
    "near",
    "objects",
    "traffic",
]
