"""A session over any link: every message once and in order, or the session is down and both sides know."""

import heapq
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.network.broker_settings import Bounds, Times
from penstock.network.neighbour_session import Down, Got, Greeting, Session, Up
from penstock.network.wire import WireError

TIMES = Times(repeat=0.3, silence=3.0, beat=1.0)


class End:
    """One side: what it has sent and got in each of its sessions."""

    def __init__(self, rank, window):
        self.rank, self.window = rank, window
        self.incarnation = 0
        self.sessions = []  # (sent, got) of each
        self.restart()

    def restart(self):
        self.incarnation += 1
        epochs = itertools.count(1)
        greeting = Greeting(
            self.rank,
            "n",
            lambda rank: rank > self.rank,
            lambda: (self.incarnation, next(epochs)),
        )
        self.session = Session(greeting, TIMES, Bounds(frame_bytes=40, window=self.window))

    def take(self, happened):
        for one in happened:
            match one:
                case Up():
                    self.sessions.append(([], []))
                case Got(number, message):
                    got = self.sessions[-1][1]
                    got.append(message)
                    assert number == len(got)
                case Down():
                    pass


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.1, 0.3]))
def test_messages_come_once_and_in_order(seed, loss):
    """Under loss, doubling, reordering and restarts; what comes is the beginning of what was sent in one session."""
    dice = random.Random(seed)
    ends = [End(0, dice.choice((1, 4, 64))), End(1, dice.choice((1, 4, 64)))]
    agenda, order, now = [], itertools.count(), 0.0
    sent = itertools.count()
    calm = 0.0

    def flush(side):
        for frame in ends[side].session.flush(now):
            for _ in range(1 + (dice.random() < 0.1)):
                if now >= 20 or dice.random() >= loss:
                    late = dice.uniform(0.01, 0.3) * (10 if dice.random() < 0.05 else 1)
                    heapq.heappush(agenda, (now + late, next(order), 1 - side, frame))

    while now < 60:
        now += 0.05
        while agenda and agenda[0][0] <= now:
            _, _, side, frame = heapq.heappop(agenda)
            ends[side].take(ends[side].session.receive(frame, now))
            flush(side)
        for side, end in enumerate(ends):
            if now < 20 and dice.random() < 0.004:
                end.restart()
            if end.session.is_closed and side == 1:
                end.session.connect(now)
            end.take(end.session.tick(now))
            if end.session.is_open and now < 22 and dice.random() < 0.3:
                message = b"%d" % next(sent)
                end.session.send(message)
                end.sessions[-1][0].append(message)
            flush(side)
        calm = now
    assert calm >= 60
    for mine, others in (ends, reversed(ends)):
        said = [told for told, _ in mine.sessions]
        for _, got in others.sessions:
            assert not got or any(told[: len(got)] == got for told in said)
    # At last all is calm: the session is open and everything has come.
    first, second = ends
    assert first.session.is_open
    assert second.session.is_open
    assert first.sessions[-1][0] == second.sessions[-1][1]
    assert second.sessions[-1][0] == first.sessions[-1][1]
    assert first.session.unsent == second.session.unsent == 0


def test_what_is_no_frame_is_refused():
    """Bytes that nobody sent raise an error with a reason, whatever they are."""
    end = End(0, 4)
    for data in (b"", b"\xc1", b"\x93\xa1P", b"\xff" * 100, b"\x91" * 5000):
        with pytest.raises(WireError):
            list(end.session.receive(data, 0.0))
