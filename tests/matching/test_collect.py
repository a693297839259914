"""From hits to matches: fan-out, leases, who has left, order."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from penstock.matching.collect import collect

NOW = 100


@settings(max_examples=150, deadline=None)
@given(
    fans=st.lists(st.lists(st.integers(0, 199), unique=True, max_size=40), min_size=1, max_size=20),
    events=st.integers(1, 5),
    check=st.booleans(),
    data=st.data(),
)
def test_every_living_subscription_once_and_ascending(fans, events, check, data):
    """Few matches and many, shared conjunctions, ended leases: as a set says, sorted."""
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, events - 1), st.integers(0, len(fans) - 1)), unique=True)
    )
    rng = np.random.default_rng(len(pairs))
    expires = rng.integers(50, 150, 200)
    gone = rng.random(200) < 0.2
    start, found = collect(
        np.array([p[0] for p in pairs], np.int32),
        np.array([p[1] for p in pairs], np.int32),
        events,
        np.cumsum([0, *map(len, fans)]).astype(np.int32),
        np.array([s for fan in fans for s in fan], np.int32),
        expires if check else np.empty(0, np.int64),
        NOW,
        gone if check else np.empty(0, np.bool_),
        200,
    )
    for e in range(events):
        alive = {
            s
            for event, c in pairs
            if event == e
            for s in fans[c]
            if not check or (expires[s] > NOW and not gone[s])
        }
        assert found[start[e] : start[e + 1]].tolist() == sorted(alive)
    assert start[events] == len(found)
