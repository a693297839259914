"""Events with the same content get ids of their own, the same in each replay."""

import hashlib

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.equal_keys import EqualKeys


def _key(content: int) -> str:
    return hashlib.sha256(str(content).encode()).hexdigest()[:32]


def _numbered(batches: list[list[int]]) -> list[str]:
    equal, found = EqualKeys(), []
    for batch in batches:
        keys = pa.array([_key(content) for content in batch], pa.string())
        changed = equal.number(keys)
        found += (keys if changed is None else changed).to_pylist()
    return found


@given(batches=st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=8))
def test_ids_differ_and_depend_on_what_was_published_only(batches):
    """However it came in batches, and in whichever order; the first of equal events has the key itself."""
    flat = [content for batch in batches for content in batch]
    found = _numbered(batches)
    assert len(set(found)) == len(flat)
    assert set(found) == set(_numbered([sorted(flat)])) == set(_numbered([[one] for one in flat]))
    assert {_key(content) for content in flat} <= set(found)


def test_keys_that_differ_stay_as_they_are():
    equal = EqualKeys()
    assert equal.number(pa.array([_key(1), _key(2)])) is None
    assert equal.number(pa.array([_key(3)])) is None
