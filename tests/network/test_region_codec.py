"""Regions cross the wire unchanged; what nobody could have sent is refused before anything computes with it."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matching.test_box_plan import ALL
from tests.matching.test_live import SCHEMA

from penstock.covering.reading import region
from penstock.language import Schema
from penstock.matching.box_plan import compile_boxes
from penstock.network.region_codec import RegionReader, encode_regions
from penstock.network.wire import Told, WireError, decode_message, encode

READER = RegionReader(Schema.of(SCHEMA))


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.sampled_from(ALL), max_size=6))
def test_regions_come_back_as_they_were(texts):
    """Every kind of filter, hidden attributes included, through the bytes of a message."""
    entries = [(n, region(text, SCHEMA)) for n, text in enumerate(texts)]
    message = decode_message(encode(Told(1, *encode_regions(entries), (7,))))
    assert message.left == (7,)
    assert READER.read(message.paths, message.entered) == entries


@pytest.mark.parametrize(
    ("path", "ends"),
    [
        (("nothing",), (1, 2)),
        ((), (1, 2)),
        (("a",), (2, 1)),
        (("a",), (1, 1)),
        (("a",), (1,)),
        (("a",), (1, 3, 3, 5)),
        (("a",), (1, None, 3, 4)),
        (("a",), ()),
        (("a",), (b"x", b"y")),
        (("a",), (-(2**63), 2**63)),
        (("s",), (1, 2)),
        (("m",), (b"short", None)),
        (("tags",), (1, 2)),
        (("\0test", "text", "0", "x", "s"), (0, 1)),
        (("\0test", "text", "7", "x", "s"), (1, None)),
        (("\0test", "text", "2", "(", "s"), (1, None)),
        (("\0test", "text", "0", "x", "a"), (1, None)),
        (("\0test", "text", "0", "\xff\xfe", "s"), (1, None)),
        (("\0test", "contains", "1", "1", "0", "tags"), (1, None)),
        (("\0test", "contains", "__import__('os')", "1", "0", "tags"), (1, None)),
        (("\0order", "1", "a", "nothing"), (0, 1)),
        (("\0order", "x", "a", "b"), (0, 1)),
        (("\0computed", "a +"), (0, 1)),
        (("\0computed", "nothing + 1"), (0, 1)),
        (("\0computed",), (0, 1)),
        (("\0else", "x"), (0, 1)),
    ],
)
def test_what_nobody_could_have_sent_is_refused(path, ends):
    """Attributes, keys, intervals and tests that no region has."""
    with pytest.raises(WireError):
        READER.read([path], [(0, (((0, ends, False),),))])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_changed_bytes_are_refused_or_are_regions(data):
    """A message with other bytes raises WireError, or holds regions that can be compiled."""
    texts = data.draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=3))
    entries = [(n, region(text, SCHEMA)) for n, text in enumerate(texts)]
    message = bytearray(encode(Told(1, *encode_regions(entries), ())))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_message(bytes(message))
        found = READER.read(read.paths, read.entered) if isinstance(read, Told) else []
    except WireError:
        return
    compile_boxes(dict(enumerate(r.boxes for _, r in found)), Schema.of(SCHEMA))


def test_a_message_is_what_its_type_says():
    """A frame that has the form of another is refused."""
    with pytest.raises(WireError):
        decode_message(msgspec.msgpack.encode(["T", 1, "paths", [], []]))
