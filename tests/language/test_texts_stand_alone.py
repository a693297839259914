"""Filters in bulk: each is cut as if it were alone, and any bytes stay within their arrays (`make test-bounds`)."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.language.digits import doubles, scaled_integers
from penstock.language.skeletons import skeletons
from penstock.language.texts import Texts

pieces = st.sampled_from(
    ["a", "b.c", ".", "'", "'x'", "''", '"', '"q"', "1", "1.5", "1e", "1e5", "1.", "=", "<", "(", ")", ",", "-", "--",
     " ", "AND", "OR", "IN", "LIKE", "BETWEEN", "NOT", "é", "\0", "\x01", "%", "'a%'", "f(", "IN (1, 2)", "[", ";"]
)  # fmt: skip
texts = st.lists(pieces, max_size=10).map("".join) | st.lists(pieces, max_size=10).map(" ".join)


def _cut(found: list[str], calls: bool) -> list[object]:
    """Of each filter its parts: skeletons, and the literals of each."""
    joined = Texts.of(pa.array(found, pa.large_string()))
    cut = skeletons(joined, calls)
    result: list[object] = []
    for text in range(len(found)):
        parts = []
        for part in range(cut.part_start[text], cut.part_start[text + 1]):
            literals = range(cut.literal_start[part], cut.literal_start[part + 1])
            written = [joined.data[cut.begin[n] : cut.end[n]].tobytes() for n in literals]
            parts.append((cut.data[cut.offset[part] : cut.offset[part + 1]].tobytes(), written))
        result.append((bool(cut.cut[text]), parts))
    return result


@given(st.lists(texts, max_size=5), st.booleans())
@settings(deadline=None, max_examples=200)
@example(["a", "'x' = b"], False)
@example(["a", ".b = 1"], False)
@example(["a.", "AND b = 1 AND c = 2"], False)
def test_a_filter_is_cut_as_if_it_were_alone(found: list[str], calls: bool) -> None:
    """What stands before or behind a filter, in the same piece of memory, makes no difference to it."""
    assert _cut(found, calls) == [_cut([text], calls)[0] for text in found]


@given(
    st.lists(
        st.binary(max_size=12) | st.sampled_from([b"1e", b"1e+", b"5.", b"e", b"9" * 30]),
        max_size=6,
    )
)
@settings(deadline=None, max_examples=200)
@example([b"1e"])
@example([b"1e+"])
def test_any_bytes_may_be_taken_for_digits(found: list[bytes]) -> None:
    """Whatever they are, they are looked at alone; what is taken for a number is that number."""
    given_texts = Texts.of(pa.array(found, pa.binary()))
    for negative in (False, True):
        values, sure = doubles(given_texts.data, given_texts.offsets, negative)
        up, down, exact = scaled_integers(given_texts.data, given_texts.offsets, negative, 2)
        for place, data in enumerate(found):
            alone = Texts.of(pa.array([data], pa.binary()))
            value, known = doubles(alone.data, alone.offsets, negative)
            assert known[0] == sure[place]
            assert not known[0] or value[0] == values[place]
            high, low, fits = scaled_integers(alone.data, alone.offsets, negative, 2)
            assert fits[0] == exact[place]
            assert not fits[0] or (high[0], low[0]) == (up[place], down[place])


@given(st.lists(st.binary(max_size=30), max_size=5), st.booleans())
@settings(deadline=None, max_examples=200)
def test_any_bytes_may_be_cut(found: list[bytes], calls: bool) -> None:
    """Bytes that are no text: places of parts and literals lie within them."""
    given_texts = Texts.of(pa.array(found, pa.binary()))
    cut = skeletons(given_texts, calls)
    assert np.all(np.diff(cut.offset) >= 0)
    assert np.all((cut.begin >= 0) & (cut.begin <= cut.end))
    assert np.all(cut.end <= len(given_texts.data))
