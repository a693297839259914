"""Where an event happened: point in polygon, and distances, over areas of New York.

The areas are in `regions.geojson`: rough outlines, drawn by hand for this project, good to some hundred metres. They
are projected once to metres on a plane that touches the globe in the middle of the city. Within the city that is exact
to a part in a thousand; far away, distances are only rough.
"""

import functools
import json
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from penstock.base.errors import OperatorError
from penstock.operators.define import operator

try:
    import shapely
    from shapely.geometry import Point, shape
except ImportError as error:
    raise OperatorError(
        "spatial operators need shapely: pip install 'penstock[operators]'"
    ) from error

_MIDDLE = np.array([-73.94, 40.73])  # longitude and latitude at which the plane touches
_METRES = 111_195.0 * np.array([math.cos(math.radians(40.73)), 1.0])  # per degree of each
LOCATION = "struct<lat: double, lon: double>"


@operator("in_area", cost="20 us", timeout=None, arguments=(LOCATION, "string"), result="boolean")
def in_area(location: Mapping[str, float | None], name: str) -> bool | None:
    """Whether a location lies in an area, its border included.

    >>> in_area({"lat": 40.85, "lon": -73.87}, "Bronx"), in_area({"lat": 40.85, "lon": -73.87}, "Queens")
    (True, False)
    """
    point = _point(location)
    return None if point is None else bool(_area(name).covers(point))


@operator(
    "near", cost="20 us", timeout=None, arguments=(LOCATION, "string", "double"), result="boolean"
)
def near(location: Mapping[str, float | None], name: str, metres: float) -> bool | None:
    """Whether a location is at most so many metres away from an area.

    >>> near({"lat": 40.758, "lon": -73.99}, "Times Square", 5000)
    True
    """
    point = _point(location)
    return None if point is None else bool(shapely.dwithin(_area(name), point, metres))


@operator(
    "distance_from", cost="30 us", timeout=None, arguments=(LOCATION, "string"), binds=("double",)
)
def distance_from(location: Mapping[str, float | None], name: str) -> set[float]:
    """How many metres a location is away from an area: 0 inside it, nothing if the location isn't known.

    >>> [round(metres, -2) for metres in distance_from({"lat": 40.69, "lon": -74.03}, "Statue of Liberty")]
    [1100.0]
    """
    point = _point(location)
    return set() if point is None else {float(_area(name).distance(point))}


def areas() -> tuple[str, ...]:
    """The names of the areas.

    >>> "Bronx" in areas()
    True
    """
    return tuple(_areas())


@functools.cache
def _areas() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("regions.geojson").read_text(encoding="utf-8")
    found = {
        feature["properties"]["name"]: shapely.transform(shape(feature["geometry"]), _projected)
        for feature in json.loads(text)["features"]
    }
    for area in found.values():
        shapely.prepare(area)
    return found


def _area(name: str) -> Any:
    found = _areas().get(name)
    if found is None:
        raise ValueError(f"no area is called {name!r}: there are {', '.join(_areas())}")
    return found


def _projected(places: Any) -> Any:
    """Metres east and north of the middle, for rows of longitude and latitude."""
    return (places - _MIDDLE) * _METRES


def _point(location: Mapping[str, float | None]) -> Any:
    lat, lon = location["lat"], location["lon"]
    if lat is None or lon is None:
        return None
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise ValueError(f"latitude {lat}, longitude {lon} is no place on earth")
    return Point(*_projected((lon, lat)))
