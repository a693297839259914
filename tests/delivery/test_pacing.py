"""The rule of paces, against one that looks at each notification by itself."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.delivery.pacing import Window, admit, admit_all, gather
from penstock.pipeline.digest_state import NOTHING, Arrival, close_due, take
from penstock.registry.paces import Pace

PACES = st.builds(Pace, most=st.integers(1, 4), interval=st.integers(1, 20))
STEPS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 6)), max_size=20)


def one_by_one(pace: Pace, steps: list[tuple[int, int]]) -> tuple[list[int], int]:
    """How many go out at each step, and how many are held back in all: a list of windows, each with its times."""
    windows: list[list[int]] = []
    sent, held, now = [], 0, 0
    for passed, arrived in steps:
        now += passed
        out = 0
        for _ in range(arrived):
            if not windows or now - windows[-1][0] >= pace.interval:
                windows.append([now])
                out += 1
            elif len(windows[-1]) < pace.most:
                windows[-1].append(now)
                out += 1
            else:
                held += 1
        sent.append(out)
    return sent, held


@given(pace=PACES, steps=STEPS)
def test_as_many_go_out_as_if_each_came_by_itself(pace, steps):
    """And never more in a window than the pace says; windows that are forgotten change nothing."""
    windows: dict[int, Window] = {}
    sent, now = [], 0
    for passed, arrived in steps:
        now += passed
        through, windows = admit_all({7: pace}, windows, {7: arrived} if arrived else {}, now)
        sent.append(through.get(7, 0))
    held = windows[7].held if 7 in windows else 0
    assert (sent, held) == one_by_one(pace, steps)
    assert sum(sent) + held == sum(arrived for _, arrived in steps)


@given(
    pace=PACES,
    window=st.builds(Window, st.integers(0, 50), st.integers(0, 9), st.integers(0, 9)),
    now=st.integers(0, 99),
    arrived=st.integers(0, 9),
)
def test_whatever_a_window_says_nothing_is_lost_from_the_count(pace, window, now, arrived):
    """Also of a window that opened later than now, by a clock that was set back, or that let more through."""
    through, after = admit(pace, window, now, arrived)
    assert 0 <= through <= min(arrived, pace.most)
    assert after.held == window.held + arrived - through
    assert after.opened <= now < after.opened + pace.interval


def test_who_has_no_pace_any_more_is_forgotten():
    paces = {1: Pace(1, 10), 2: Pace(1, 10)}
    _, windows = admit_all(paces, {}, {1: 5, 2: 1}, now=0)
    _, after = admit_all({1: paces[1]}, windows, {}, now=100)
    assert after == {1: Window(0, 1, 4)}, "what was held back is still known"


def test_a_digest_gathers_until_it_is_sent():
    assert gather(gather(None, 5, 3), 500, 2) == Window(5, 5)


@given(
    batches=st.lists(
        st.tuples(
            st.integers(0, 15),
            st.lists(st.tuples(st.integers(1, 3), st.integers(1, 150)), max_size=3),
        ),
        max_size=20,
    ),
    interval=st.integers(1, 30),
)
def test_every_notification_is_in_one_digest(batches, interval):
    """Counted once; the first hundred are in the places that are kept, and it is due when its window is over."""
    tick, now, sent, came = NOTHING, 0, dict.fromkeys((1, 2, 3), 0), dict.fromkeys((1, 2, 3), 0)
    for number, (passed, arrivals) in enumerate([*batches, (1000, [])]):
        now += passed
        by_id = dict(arrivals)
        tick = take(
            tick,
            ("events", number),
            [Arrival(s, interval, n, min(n, 100)) for s, n in sorted(by_id.items())],
            now,
        )
        for sid, count in by_id.items():
            came[sid] += count
        due, tick = close_due(tick, now)
        for sid, one in due.items():
            assert now - one.window.opened >= interval
            assert one.kept == min(one.window.count, 100)
            assert len(set(one.places)) == len(one.places) <= 100
            sent[sid] += one.window.count
        assert all(now - one.window.opened < interval for one in tick.open.values())
        assert tick.needed() == {place for one in tick.open.values() for place in one.places}
    assert sent == came
