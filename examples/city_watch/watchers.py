"""Who watches the city, and for what: some people one can read, and as many more as wanted.

The first five are the paper's S1 to S5, in section 2.1.
"""

import numpy as np
import pyarrow as pa

PEOPLE = {
    "ann, highway patrol": "in_area(location, 'Bronx') AND chase(image, 'police car', 'car')",
    "bob, crowd control": "in_area(location, 'Bronx') AND crowd(image) > 50",
    "cleo, traffic desk": "near(location, 'Times Square', 5000) AND traffic(image) = 'congestion' AND crowd(image) > 5",
    "dan, Bronx precinct": "in_area(location, 'Bronx') AND traffic(image) = 'congestion' "
    "AND objects(image, 'police car', :pol) AND :pol < 2",
    "eva, coast guard": "distance_from(location, 'Statue of Liberty', :x) AND :x < 1000 "
    "AND objects(image, 'tour boat', :y) AND objects(image, 'coast guard boat', :z) AND :y > 2 * :z",
    "finn, harbour master": "in_area(location, 'Upper Bay') AND objects(image, 'tour boat', :boats) AND :boats >= 4",
    "gus, stadium": "in_area(location, 'Yankee Stadium') AND crowd(image) > 130",
    "hana, parks": "crowd(image) BETWEEN 30 AND 60 AND in_area(location, 'Central Park')",
    "ivo, low flights": "altitude < 70 AND crowd(image) > 80",
    "june, speeding drones": "speed > 45",
    "kim, Brooklyn traffic": "in_area(location, 'Brooklyn') AND traffic(image) <> 'free'",
    "lee, empty streets": "in_area(location, 'Manhattan') AND NOT traffic(image) = 'congestion' AND crowd(image) < 5",
    "mia, press": "near(location, 'Times Square', 1000) AND (chase(image, 'police car', 'car') OR crowd(image) > 50)",
    "nat, Queens": "in_area(location, 'Queens') AND speed < 20 AND crowd(image) > 40",
    "ole, ferries": "near(location, 'Statue of Liberty', 500) AND NOT objects(image, 'tour boat', 0)",
    "pia, one guard each": "objects(image, 'tour boat', :n) AND objects(image, 'coast guard boat', :n) AND :n > 0 "
    "AND in_area(location, 'Upper Bay')",
    "quin, police": "objects(image, 'police car', :n) AND :n >= 3 AND altitude > 300",
    "rita, uav-40": "drone = 'uav-40' AND crowd(image) >= 120",
    "sam, more police than cars": "objects(image, 'police car', :p) AND objects(image, 'car', :c) AND :p > :c "
    "AND in_area(location, 'Manhattan') AND traffic(image) = 'free'",
    "tess, morning": "taken < TIMESTAMP '2007-06-20 09:05:00' AND in_area(location, 'Manhattan') AND crowd(image) > 45",
}
_AREAS = (
    "Bronx", "Manhattan", "Brooklyn", "Queens", "Upper Bay", "Central Park", "Times Square",
    "Yankee Stadium", "Statue of Liberty", "Prospect Park", "Staten Island", "JFK Airport",
)  # fmt: skip
_KINDS = ("car", "police car", "tour boat", "coast guard boat")


def watchers(count: int, seed: int = 2007) -> pa.Table:
    """The people above, and others up to `count`: columns id, subscriber and filter.

    >>> watchers(25)["subscriber"].to_pylist()[-1]
    'watcher 25'
    """
    rng = np.random.default_rng(seed)
    rows = list(PEOPLE.items())[:count]
    rows += [(f"watcher {n + 1}", _filter(rng)) for n in range(len(rows), count)]
    return pa.table(
        {
            "id": range(1, count + 1),
            "subscriber": [name for name, _ in rows],
            "filter": [text for _, text in rows],
        }
    )


def _filter(rng: np.random.Generator) -> str:
    """Where and what, in any order; for some also how the drone flies. Popular places are asked for more often."""
    area = _AREAS[min(int(rng.zipf(1.6)) - 1, len(_AREAS) - 1)]
    where = f"in_area(location, '{area}')"
    if rng.random() < 0.4:
        where = f"near(location, '{area}', {(500, 1000, 3000)[int(rng.integers(3))]})"
    kind = _KINDS[int(rng.integers(len(_KINDS)))]
    what = (
        f"crowd(image) > {int(rng.integers(2, 18)) * 10}",
        f"traffic(image) = '{('free', 'dense', 'congestion')[int(rng.integers(3))]}'",
        f"objects(image, '{kind}', :n) AND :n > {int(rng.integers(1, 6))}",
        "chase(image, 'police car', 'car')",
    )
    chosen = rng.choice(len(what), int(rng.integers(1, 3)), replace=False)
    parts = [where, *(what[n] for n in chosen.tolist())]
    if rng.random() < 0.3:
        parts.append(f"speed < {int(rng.integers(2, 9)) * 5}")
    return " AND ".join(parts[n] for n in rng.permutation(len(parts)).tolist())
