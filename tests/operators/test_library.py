"""The operators that come with Penstock: places in New York, and pictures from above."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from penstock.operators.library import (
    OPERATORS,
    chase,
    crowd,
    distance_from,
    in_area,
    near,
    objects,
    traffic,
)
from penstock.operators.library.areas import areas
from penstock.operators.library.images import KINDS, PERSON, Look

BOROUGHS = ("Manhattan", "Bronx", "Brooklyn", "Queens", "Staten Island")


def at(lat: float, lon: float) -> dict[str, float]:
    return {"lat": lat, "lon": lon}


# --- regions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "borough"),
    [
        (at(40.8506, -73.8769), "Bronx"),  # the zoo
        (at(40.7484, -73.9857), "Manhattan"),  # Empire State Building
        (at(40.6722, -73.9682), "Brooklyn"),  # the museum
        (at(40.7500, -73.8448), "Queens"),  # the Unisphere is near by
        (at(40.6413, -73.7781), "Queens"),  # JFK
        (at(40.5795, -74.1502), "Staten Island"),
        (at(40.7033, -74.0170), "Manhattan"),  # the Battery
        (at(40.7300, -74.0700), None),  # Jersey City
        (at(51.5, -0.12), None),  # London
    ],
)
def test_well_known_places_lie_in_their_borough(place: dict, borough: str | None):
    """And in no other."""
    assert [name for name in BOROUGHS if in_area(place, name)] == ([borough] if borough else [])


@given(st.floats(40.45, 40.95), st.floats(-74.3, -73.65))
@settings(max_examples=200, deadline=None)
def test_no_place_lies_in_two_boroughs(lat: float, lon: float):
    """The outlines don't overlap, and a park lies where its borough does."""
    place = at(lat, lon)
    assert sum(bool(in_area(place, name)) for name in BOROUGHS) <= 1
    for name in areas():
        metres = next(iter(distance_from(place, name)))
        assert in_area(place, name) is (metres == 0)
        assert near(place, name, metres + 1)
        assert metres == 0 or not near(place, name, metres - 1)


def test_distances_are_those_on_the_globe():
    """Times Square to the Statue of Liberty: 8.9 km by the great circle, from point to point."""
    (metres,) = distance_from(at(40.7580, -73.9855), "Statue of Liberty")
    assert metres == pytest.approx(8_900, rel=0.02)


def test_an_unknown_area_fails_with_the_names_that_there_are():
    """A subscriber may have misspelt it."""
    with pytest.raises(ValueError, match=r"no area is called 'Bronks': there are .*Bronx"):
        in_area(at(40.8, -73.9), "Bronks")


def test_a_location_that_is_incomplete_is_unknown_and_one_off_the_globe_fails():
    """NULL in a field isn't the operator's fault; 400 degrees is the event's."""
    assert in_area({"lat": None, "lon": -73.9}, "Bronx") is None
    assert distance_from({"lat": 40.8, "lon": None}, "Bronx") == set()
    for lat, lon in ((400, 0), (0, 181), (float("nan"), 0)):
        with pytest.raises(ValueError, match="no place on earth"):
            near(at(lat, lon), "Bronx", 5)


# --- images ------------------------------------------------------------------------------------


def picture(*things: tuple[Look, int, int], size: int = 200, form: str = "PNG") -> bytes:
    """Things at places, on grey with noise."""
    image = Image.new("RGB", (size, size), (150, 150, 145))
    draw = ImageDraw.Draw(image)
    for look, x, y in things:
        if look is PERSON:
            draw.ellipse((x, y, x + 3, y + 3), fill=look.colour)
        else:
            draw.rectangle((x, y, x + look.area // 5 - 1, y + 4), fill=look.colour)
    noise = np.random.default_rng(3).integers(-6, 7, (size, size, 1))
    pixels = np.clip(np.asarray(image).astype(int) + noise, 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


spots = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 15)), unique=True, min_size=0, max_size=40
)


@given(spots, st.data())
@settings(max_examples=40, deadline=None)
def test_things_that_dont_touch_are_counted_exactly(places: list, data: st.DataObject):
    """People and four kinds of things, anywhere on a grid."""
    looks = [PERSON, *KINDS.values()]
    chosen = [data.draw(st.sampled_from(looks)) for _ in places]
    image = picture(
        *((look, 4 + 32 * x, 4 + 12 * y) for look, (x, y) in zip(chosen, places, strict=True))
    )
    assert crowd(image) == chosen.count(PERSON)
    assert objects(image) == {(name, chosen.count(look)) for name, look in KINDS.items()}


def test_people_who_touch_are_counted_by_their_area():
    """Two heads side by side are one blob, twice as large."""
    assert crowd(picture((PERSON, 50, 50), (PERSON, 54, 50), (PERSON, 100, 100))) == 3


def test_specks_are_nobody():
    """A pixel or two of the right colour."""
    image = Image.new("RGB", (50, 50), (150, 150, 145))
    image.putpixel((10, 10), PERSON.colour)
    image.putpixel((30, 30), KINDS["car"].colour)
    out = io.BytesIO()
    image.save(out, "PNG")
    assert crowd(out.getvalue()) == 0
    assert ("car", 0) in objects(out.getvalue())


@pytest.mark.parametrize(
    ("cars", "state"), [(0, "free"), (5, "free"), (6, "dense"), (12, "congestion")]
)
def test_traffic_is_told_by_the_number_of_cars(cars: int, state: str):
    """Police cars are cars, too."""
    things = [(KINDS["car"], 10 + 30 * (n % 5), 10 + 20 * (n // 5)) for n in range(cars)]
    if things:
        things[0] = (KINDS["police car"], *things[0][1:])
    assert traffic(picture(*things)) == state


def test_a_chase_is_two_cars_close_together():
    """Of the kinds that are asked for."""
    police, car = KINDS["police car"], KINDS["car"]
    close, far = (
        picture((police, 50, 50), (car, 80, 50)),
        picture((police, 10, 10), (car, 150, 150)),
    )
    assert chase(close, "police car", "car")
    assert not chase(far, "police car", "car")
    assert not chase(close, "police car", "tour boat")
    with pytest.raises(ValueError, match="no kind is called 'tank'"):
        chase(close, "tank", "car")


@pytest.mark.parametrize(
    "image",
    [b"", b"no picture", picture()[:-500], b"GIF89a" + bytes(100)],
    ids=["empty", "text", "cut", "gif"],
)
def test_bytes_that_are_no_picture_raise(image: bytes):
    """And so fail their event."""
    for one in (crowd, objects, traffic):
        with pytest.raises(Exception, match=r".+"):
            one(image)


def test_a_picture_with_too_many_pixels_is_refused_before_it_is_decoded():
    """A few bytes can hold very many pixels."""
    out = io.BytesIO()
    Image.new("1", (5000, 5000)).save(out, "PNG")
    assert len(out.getvalue()) < 10_000
    with pytest.raises(ValueError, match="25,000,000 pixels: 16,000,000 at most"):
        crowd(out.getvalue())


def test_all_of_them_can_be_imported_by_workers():
    """Their names, and that they are portable."""
    OPERATORS.portable()
    assert [s.name for s in OPERATORS.signatures] == [
        "chase", "crowd", "distance_from", "in_area", "near", "objects", "traffic",
    ]  # fmt: skip
