"""What tasks do for paces, against loops over the same rows."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.paced_rows import ArrivalWork, HoldWork, first_arrivals

LISTS = pa.list_(pa.int64()), pa.list_(pa.string())
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),
        st.lists(st.integers(1, 6), min_size=1, max_size=6, unique=True).map(sorted),
    ),
    max_size=12,
)
MOST = {2: 1, 3: 2, 5: 3}


def batch(rows, first):
    """Notifications from some number on; of a slice, so that lists don't begin at their start."""
    numbers = range(first, first + len(rows))
    table = {
        "notification_id": pa.array([f"{n * 37 % 100:02}" for n in numbers], pa.string()),
        "subscriptions": pa.array([ids for _, ids in rows], LISTS[0]),
        "subscribers": pa.array([[f"s{i}" for i in ids] for _, ids in rows], LISTS[1]),
        "event": pa.array([{"id": n} for n in numbers], pa.struct([("id", pa.int64())])),
        "arrival_time": pa.array([time for time, _ in rows], pa.int64()),
    }
    return pa.record_batch(table).slice(min(1, len(rows)))


def batches_of(parts):
    return [batch(rows, 13 * number) for number, rows in enumerate(parts)]


def pairs_of(batches):
    """(time, notification, event, subscription, subscriber) of all readers."""
    return [
        (row["arrival_time"], row["notification_id"], row["event"]["id"], sid, name)
        for rows in batches
        for row in rows.to_pylist()
        for sid, name in zip(row["subscriptions"], row["subscribers"], strict=True)
    ]


def order(pair):
    time, name, *_ = pair
    return (time is None, time or 0, name)


@given(tasks=st.lists(st.lists(ROWS, max_size=3), max_size=3))
def test_the_first_of_each_are_found_and_all_are_counted(tasks):
    """Whichever tasks have them. Only digests are given what is told."""
    work = ArrivalWork(MOST, frozenset({5}), "event")
    given_ = [batches_of(parts) for parts in tasks]
    made = [rows for batches in given_ for rows in work.run(batches)]
    expected = {}
    for pair in sorted((p for batches in given_ for p in pairs_of(batches)), key=order):
        expected.setdefault(pair[3], []).append(pair)
    if not made:
        assert not set(expected) & set(MOST)
        return
    found = first_arrivals(pa.Table.from_batches(made), MOST).to_pylist()
    for sid, most in MOST.items():
        mine = [row for row in found if row["subscription"] == sid]
        wanted = expected.get(sid, [])
        assert [(row["arrival_time"], row["notification_id"]) for row in mine] == [
            pair[:2] for pair in wanted[:most]
        ]
        assert sum(row["count"] for row in mine) == len(wanted)
        assert all((row["event"] is not None) == (sid == 5) for row in mine)
        assert all(row["subscriber"] == f"s{sid}" for row in mine)


@given(
    parts=st.lists(ROWS, max_size=3),
    through=st.sets(st.tuples(st.sampled_from([2, 3, 5]), st.integers(0, 39))),
)
def test_only_what_is_held_back_is_left_out(parts, through):
    """Rows that nobody gets any more are gone; the others keep their readers, and these their names."""
    names = {sid: frozenset(f"{n * 37 % 100:02}" for s, n in through if s == sid) for sid in MOST}
    given_ = batches_of(parts)
    found = list(HoldWork(names).run(given_))
    expected = [p for p in pairs_of(given_) if p[3] not in MOST or p[1] in names[p[3]]]
    assert Counter(pairs_of(found)) == Counter(expected)
    assert all(row["subscriptions"] for rows in found for row in rows.to_pylist())
