"""One neighbour: a reliable FIFO in sessions, over a link that loses, doubles, delays and reorders frames.

    child    Hello(mine)  ──▶                                        CONNECTING
    parent                ◀──  Hello(mine, yours)                    HALF
    child    Packet       ──▶                                        OPEN, and so is the parent when it comes

The broker that comes later in the order of brokers opens, the other answers. Each side chooses an epoch of its own; a
session is the pair of them, so a frame of an earlier session is recognised by its epochs and dropped. Messages are
numbered from 1, acknowledged cumulatively, and sent again after `repeat`; messages that come out of order wait. If a
neighbour isn't heard for `silence`, it has failed; if it says hello with a newer epoch, it has started anew. Then the
session is down, and what wasn't acknowledged is gone with it. So the layers above see messages in order and once,
between `Up` and `Down`.

Pure: `receive` and `tick` are given the time and return what happened; `flush` returns the frames to send.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.network.broker_settings import Bounds, Times
from penstock.network.wire import Bye, Epoch, Frame, Hello, Packet, WireError, decode_frame, encode

_MOST_WAITING = 1_024  # messages that came before their turn
_FRAME_OVERHEAD = 64


@dataclass(frozen=True, slots=True)
class Up:
    """A session has begun. `rank` is the neighbour's."""

    rank: int


@dataclass(frozen=True, slots=True)
class Down:
    """The session has ended: nothing that was sent in it can be counted on, unless it was answered."""

    reason: str


@dataclass(frozen=True, slots=True)
class Got:
    """A message of the neighbour, in order."""

    number: int
    message: bytes


Happened = Up | Down | Got


class _State(Enum):
    CLOSED = 0
    CONNECTING = 1
    HALF = 2
    OPEN = 3


@dataclass(slots=True)
class _Sent:
    number: int
    message: bytes
    time: float


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a broker says of itself when it opens a session, and which ranks may open one with it (`may_come`)."""

    rank: int
    network: str
    may_come: Callable[[int], bool]
    next_epoch: Callable[[], Epoch]


class Session:
    """See the module."""

    def __init__(self, greeting: Greeting, times: Times, bounds: Bounds) -> None:
        self._greeting, self._times, self._bounds = greeting, times, bounds
        self._state = _State.CLOSED
        self._mine: Epoch = (0, 0)
        self._yours: Epoch | None = None
        self._rank = 0
        self._frames: list[Frame] = []
        self._heard = self._spoke = self._greeted = 0.0
        self._reset()

    def _reset(self) -> None:
        self._sent: deque[_Sent] = deque()  # not acknowledged yet
        self._queue: deque[tuple[int, bytes]] = deque()  # not sent yet
        self._last = 0  # number given to a message
        self._came = 0  # last number that came in order
        self._early: dict[int, bytes] = {}
        self._must_ack = False

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    @property
    def last_number(self) -> int:
        """The number of the last message sent in this session; 0 if there was none."""
        return self._last

    @property
    def unsent(self) -> int:
        """Messages that aren't acknowledged."""
        return len(self._sent) + len(self._queue)

    # --- by the broker ----------------------------------------------------------------------------

    def connect(self, now: float) -> None:
        """Begin to open a session."""
        self._reset()
        self._state = _State.CONNECTING
        self._mine, self._yours = self._greeting.next_epoch(), None
        self._say_hello(now)

    def close(self) -> None:
        """End the session, or the attempt, and say so."""
        if self._yours is not None and not self.is_closed:
            self._frames.append(Bye(self._yours, ""))
        self._state = _State.CLOSED
        self._reset()

    def send(self, message: bytes) -> int:
        """Send a message in this session. Returns its number."""
        assert self.is_open
        self._last += 1
        self._queue.append((self._last, message))
        return self._last

    # --- what comes -------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> Iterator[Happened]:
        """Take a frame. WireError if it can't be read."""
        frame = decode_frame(data)
        match frame:
            case Hello():
                yield from self._hello(frame, now)
            case Packet():
                yield from self._packet(frame, now)
            case Bye(yours, reason):
                if yours == self._mine and not self.is_closed:
                    yield from self._down(reason or "the neighbour has ended the session")

    def _hello(self, hello: Hello, now: float) -> Iterator[Happened]:
        if hello.network != self._greeting.network:
            raise WireError("the neighbour has another schema, or speaks another version")
        known = self._yours
        if self._state is _State.CONNECTING:
            if hello.yours == self._mine:
                self._yours, self._rank = hello.mine, hello.rank
                yield from self._up(now)
            return
        if known is not None and not self.is_closed:
            if hello.mine < known:
                return
            if hello.mine == known:
                self._again(hello, now)
                if hello.yours == self._mine and not self.is_open:
                    yield from self._up(now)
                return
            if self.is_open:
                yield from self._down("the neighbour has started anew")
        if not self._greeting.may_come(hello.rank):
            self._frames.append(Bye(hello.mine, "a broker connects to those that come before it"))
            return
        self._reset()
        self._state = _State.HALF
        self._mine, self._yours, self._rank = self._greeting.next_epoch(), hello.mine, hello.rank
        self._heard = now
        self._say_hello(now)

    def _again(self, hello: Hello, now: float) -> None:
        """A repeated hello of the current session: an answer to it got lost."""
        self._heard = now
        if hello.yours == self._mine:
            self._must_ack = True
        else:
            self._say_hello(now)

    def _packet(self, packet: Packet, now: float) -> Iterator[Happened]:
        if self.is_closed:
            self._frames.append(Bye(packet.mine, ""))
            return
        if packet.yours != self._mine or packet.mine != self._yours:
            return
        if self._state is _State.HALF:
            yield from self._up(now)
        self._heard = now
        while self._sent and self._sent[0].number <= packet.ack:
            self._sent.popleft()
        if packet.messages:
            self._must_ack = True
        for number, message in enumerate(packet.messages, packet.first):
            if number == self._came + 1:
                self._came = number
                yield Got(number, message)
            elif number > self._came and len(self._early) < _MOST_WAITING:
                self._early[number] = message
            # Acting on a message may end the session.
            if not self.is_open:
                return
        while self._came + 1 in self._early:
            self._came += 1
            yield Got(self._came, self._early.pop(self._came))
            if not self.is_open:
                return

    def _up(self, now: float) -> Iterator[Happened]:
        self._state = _State.OPEN
        self._heard = now
        self._must_ack = True
        yield Up(self._rank)

    def fail(self, reason: str) -> Iterator[Happened]:
        """End the session because of what the neighbour does, or because the link says that it is gone."""
        if self._yours is not None and not self.is_closed:
            self._frames.append(Bye(self._yours, reason))
        yield from self._down(reason)

    def _down(self, reason: str) -> Iterator[Happened]:
        if self.is_open:
            # Before it is closed, as answers to the neighbour's messages may still be sent, in vain.
            yield Down(reason)
        self._state = _State.CLOSED
        self._reset()

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now: float) -> Iterator[Happened]:
        """Do what is due by now."""
        silent = now - self._heard >= self._times.silence
        if self._state in (_State.OPEN, _State.HALF) and silent:
            yield from self._down(f"nothing heard for {self._times.silence:g} s")
        if self._state is _State.CONNECTING and now - self._greeted >= self._times.repeat:
            self._say_hello(now)

    def next_time(self) -> float | None:
        """When `tick` or `flush` has something to do, if nothing comes before."""
        times = self._times
        match self._state:
            case _State.CLOSED:
                return None
            case _State.CONNECTING:
                return self._greeted + times.repeat
            case _State.HALF:
                return self._heard + times.silence
        due = min(self._heard + times.silence, self._spoke + times.beat)
        return min(due, self._sent[0].time + times.repeat) if self._sent else due

    def _say_hello(self, now: float) -> None:
        self._greeted = now
        self._frames.append(
            Hello(self._mine, self._yours, self._greeting.rank, self._greeting.network)
        )

    # --- what goes --------------------------------------------------------------------------------

    def flush(self, now: float) -> list[bytes]:
        """The frames to send now."""
        frames, self._frames = self._frames, []
        if self.is_open:
            if self._sent and now - self._sent[0].time >= self._times.repeat:
                frames += self._repeats(now)
            while self._queue and len(self._sent) < self._bounds.window:
                frames.append(self._fresh(now))
            if not frames and (self._must_ack or now - self._spoke >= self._times.beat):
                frames.append(self._packet_of([]))
            if frames:
                self._must_ack = False
                self._spoke = now
        return [encode(frame) for frame in frames]

    def _repeats(self, now: float) -> Iterator[Packet]:
        """Everything that isn't acknowledged, to be sent once more."""
        run: list[_Sent] = []
        size = 0
        for one in self._sent:
            one.time = now
            if run and size + len(one.message) > self._bounds.frame_bytes:
                yield self._packet_of(run)
                run, size = [], 0
            run.append(one)
            size += len(one.message) + _FRAME_OVERHEAD
        yield self._packet_of(run)

    def _fresh(self, now: float) -> Packet:
        run: list[_Sent] = []
        size = 0
        while self._queue and len(self._sent) + len(run) < self._bounds.window:
            number, message = self._queue[0]
            if run and size + len(message) > self._bounds.frame_bytes:
                break
            run.append(_Sent(number, message, now))
            size += len(message) + _FRAME_OVERHEAD
            self._queue.popleft()
        self._sent += run
        return self._packet_of(run)

    def _packet_of(self, run: list[_Sent]) -> Packet:
        assert self._yours is not None
        first = run[0].number if run else 0
        messages = tuple(one.message for one in run)
        return Packet(self._mine, self._yours, first, self._came, messages)
