"""What a picture from above shows: people, cars and boats, as blobs of their colour.

These operators do real work on images without a trained model: they decode the bytes, find the pixels of a colour,
label connected ones, and count. Where figures touch, a blob counts as many of them as fit its area. Bytes that aren't a
picture raise, so that their event fails. One picture is decoded once, however many operators look at it in turn.
"""

import functools
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.errors import OperatorError
from penstock.operators.define import operator

try:
    from PIL import Image
    from scipy import ndimage
except ImportError as error:
    raise OperatorError(
        "image operators need Pillow and SciPy: pip install 'penstock[operators]'"
    ) from error

_MOST_PIXELS = 16_000_000
_CHASE = 45.0  # pixels between the middles of two cars, at most
_DENSE, _CONGESTED = 6, 12  # cars in one picture
_TOUCHING = np.ones((3, 3), np.int8)  # pixels that touch at a corner belong together

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Look:
    """What a kind of thing looks like: hue and brightness from 0 to 255, and the pixels that one of them covers."""

    colour: tuple[int, int, int]  # as it is painted: red, green, blue
    hue: tuple[int, int] | None  # None: so dark that there is no colour
    area: int

    def mask(self, pixels: Pixels) -> npt.NDArray[np.bool_]:
        """The pixels that look so, of a picture in hue, saturation and brightness."""
        hue, saturation, brightness = pixels[..., 0], pixels[..., 1], pixels[..., 2]
        if self.hue is None:
            found: npt.NDArray[np.bool_] = brightness < 50
            return found
        low, high = self.hue
        return (hue >= low) & (hue <= high) & (saturation > 150) & (brightness > 90)


PERSON = Look((22, 20, 24), None, 12)
KINDS = {
    "car": Look((200, 30, 80), (235, 250), 50),
    "police car": Look((40, 60, 210), (155, 175), 50),
    "tour boat": Look((235, 215, 40), (32, 44), 120),
    "coast guard boat": Look((235, 120, 20), (12, 24), 120),
}


@operator("crowd", cost="2 ms", timeout="5 s")
def crowd(image: bytes) -> int:
    """How many people a picture shows.

    >>> crowd(b"no picture")
    Traceback (most recent call last):
    PIL.UnidentifiedImageError: cannot identify image file ...
    """
    return _count(_blobs(_pixels(image), PERSON), PERSON)


@operator("objects", cost="4 ms", timeout="5 s", binds=("string", "bigint"))
def objects(image: bytes) -> set[tuple[str, int]]:
    """How many there are of each kind: cars, police cars, tour boats, coast guard boats; 0 of what isn't there."""
    pixels = _pixels(image)
    return {(name, _count(_blobs(pixels, kind), kind)) for name, kind in KINDS.items()}


@operator("chase", cost="3 ms", timeout="5 s")
def chase(image: bytes, chaser: str, chased: str) -> bool:
    """Whether something of one kind is close behind something of another."""
    pixels = _pixels(image)
    first, second = (_blobs(pixels, _kind(name)).middles for name in (chaser, chased))
    if not len(first) or not len(second):
        return False
    apart = np.hypot(*(first[:, None, axis] - second[None, :, axis] for axis in (0, 1)))
    return bool((apart <= _CHASE).any())


@operator("traffic", cost="3 ms", timeout="5 s")
def traffic(image: bytes) -> str:
    """How the traffic is: 'free', 'dense' or 'congestion'."""
    pixels = _pixels(image)
    kinds = [KINDS[name] for name in ("car", "police car")]
    cars = sum(_count(_blobs(pixels, kind), kind) for kind in kinds)
    return "congestion" if cars >= _CONGESTED else "dense" if cars >= _DENSE else "free"


def _kind(name: str) -> Look:
    if name not in KINDS:
        raise ValueError(f"no kind is called {name!r}: there are {', '.join(KINDS)}")
    return KINDS[name]


@functools.lru_cache(maxsize=2)
def _pixels(image: bytes) -> Pixels:
    """Hue, saturation and brightness of every pixel."""
    with Image.open(io.BytesIO(image), formats=("PNG", "JPEG")) as picture:
        width, height = picture.size
        if width * height > _MOST_PIXELS:
            raise ValueError(f"the picture has {width * height:,} pixels: {_MOST_PIXELS:,} at most")
        return np.asarray(picture.convert("RGB").convert("HSV"))


@dataclass(frozen=True, slots=True)
class _Blobs:
    areas: npt.NDArray[np.int64]
    middles: npt.NDArray[np.float64]  # row and column


def _blobs(pixels: Pixels, look: Look) -> _Blobs:
    """The connected pixels of a colour; specks of less than a third of one thing are noise."""
    labels, count = ndimage.label(look.mask(pixels), _TOUCHING)
    areas = np.bincount(labels.reshape(-1), minlength=count + 1)
    kept = np.flatnonzero(areas[1:] * 3 >= look.area) + 1
    middles: Any = ndimage.center_of_mass(np.ones_like(labels), labels, kept) if len(kept) else []
    return _Blobs(areas[kept], np.array(middles, np.float64).reshape(-1, 2))


def _count(blobs: _Blobs, look: Look) -> int:
    return int(np.maximum(1, np.rint(blobs.areas / look.area)).sum())
