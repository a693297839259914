"""What the drones send: a picture, where it was taken, speed and height, and when. Everything follows from a seed.

Pictures are drawn with Pillow, in the colours that the operators of `penstock.operators.library.images` look for:
streets with cars and people, water with boats, and noise on top. What is drawn depends on the place: boats are in the
bay, crowds at the stadium. Now and then the radio link breaks, and a picture arrives cut short.
"""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from penstock.operators.library.images import KINDS, PERSON

SIZE = 160  # pixels, both ways
CUT = 97  # every so many pictures, one is cut short
SCHEMA = pa.schema(
    [
        ("event", pa.int64()),
        ("drone", pa.string()),
        ("image", pa.binary()),
        ("location", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ("speed", pa.float64()),
        ("altitude", pa.float64()),
        ("taken", pa.timestamp("us", "UTC")),
    ]
)
_BEGIN = datetime(2007, 6, 20, 9, tzinfo=UTC)
_STREET, _WATER = (150, 150, 145), (120, 140, 150)
# Places that drones circle around: latitude, longitude, how far they stray (degrees), and what is seen there.
_ROUTES = (
    ("street", 40.850, -73.880, 0.030),
    ("street", 40.758, -73.986, 0.010),
    ("street", 40.680, -73.940, 0.030),
    ("street", 40.730, -73.830, 0.050),
    ("stadium", 40.829, -73.927, 0.002),
    ("park", 40.782, -73.966, 0.008),
    ("bay", 40.690, -74.044, 0.008),
    ("bay", 40.660, -74.045, 0.020),
)


def flights(count: int, seed: int = 2007) -> pa.RecordBatch:
    """Events, in the order in which they were sent.

    >>> batch = flights(3)
    >>> batch.num_rows, batch.schema.names[:3]
    (3, ['event', 'drone', 'image'])
    """
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        route = int(rng.integers(len(_ROUTES)))
        scene, lat, lon, stray = _ROUTES[route]
        place = rng.normal(0, stray / 2, 2)
        image = _picture(scene, rng)
        rows.append(
            {
                "event": number,
                "drone": f"uav-{route}{rng.integers(3)}",
                "image": image[: len(image) // 3] if number % CUT == CUT - 1 else image,
                "location": {"lat": lat + float(place[0]), "lon": lon + float(place[1])},
                "speed": round(float(rng.gamma(4, 5)), 1),
                "altitude": round(float(rng.uniform(60, 400)), 1),
                "taken": _BEGIN + timedelta(seconds=2 * number),
            }
        )
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def _picture(scene: str, rng: np.random.Generator) -> bytes:
    """A PNG: a background, what is on it, and noise."""
    picture = Image.new("RGB", (SIZE, SIZE), _WATER if scene == "bay" else _STREET)
    draw = ImageDraw.Draw(picture)
    _SCENES[scene](draw, rng)
    noisy = np.asarray(picture).astype(np.int16) + rng.integers(-6, 7, (SIZE, SIZE, 1))
    out = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _street(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    jam = rng.random() < 0.25
    _cars(draw, rng, "car", int(rng.integers(10, 16) if jam else rng.integers(0, 6)))
    _cars(draw, rng, "police car", int(rng.poisson(0.8)))
    _people(draw, rng, int(rng.poisson(60) if rng.random() < 0.15 else rng.poisson(8)))


def _stadium(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    _people(draw, rng, int(rng.poisson(120)))
    _cars(draw, rng, "police car", int(rng.poisson(1)))


def _park(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    _people(draw, rng, int(rng.poisson(25)))


def _bay(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    _boats(draw, rng, "tour boat", int(rng.poisson(2)))
    _boats(draw, rng, "coast guard boat", int(rng.poisson(0.8)))


_SCENES: dict[str, Callable[[ImageDraw.ImageDraw, np.random.Generator], None]] = {
    "street": _street,
    "stadium": _stadium,
    "park": _park,
    "bay": _bay,
}


def _cars(draw: ImageDraw.ImageDraw, rng: np.random.Generator, kind: str, count: int) -> None:
    """Rectangles of 10 by 5, along or across."""
    for x, y in rng.integers(12, SIZE - 12, (count, 2)).tolist():
        along, across = (9, 4) if rng.random() < 0.5 else (4, 9)
        draw.rectangle((x, y, x + along, y + across), fill=KINDS[kind].colour)


def _boats(draw: ImageDraw.ImageDraw, rng: np.random.Generator, kind: str, count: int) -> None:
    """Hulls of 20 by 8, pointed at the bow."""
    for x, y in rng.integers(4, SIZE - 28, (count, 2)).tolist():
        hull = [(x, y), (x + 12, y), (x + 19, y + 4), (x + 12, y + 7), (x, y + 7)]
        draw.polygon(hull, fill=KINDS[kind].colour)


def _people(draw: ImageDraw.ImageDraw, rng: np.random.Generator, count: int) -> None:
    """Heads from above: discs of 4 by 4."""
    for x, y in rng.integers(4, SIZE - 8, (count, 2)).tolist():
        draw.ellipse((x, y, x + 3, y + 3), fill=PERSON.colour)
