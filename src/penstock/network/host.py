"""Runs one broker: gives it what comes in, makes durable what it keeps, sends what it says.

    links ─┐                    steps                              writes
    clients ┼─▶ queue ─▶ thread 1: Broker.step, many at once ─▶ queue ─▶ thread 2: one transaction ─▶ frames, replies,
    time ──┘                                                                                          mail

Nothing blocks the first thread: no disk, no socket. While the second syncs, the effects of further steps gather, so the
more there is to do, the less each step costs. Frames leave in the order of the steps, when what they depend on is on
disk. A deletion waits until something is written that must be on disk: if the deletion is lost, something is sent
again, and clients recognise it by its id.

If a step or the disk fails, the host ends (`failed` says why). When it is started again, it goes on from what is on
disk.
"""

import contextlib
import logging
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from penstock.network.broker import Broker
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_status import read_status
from penstock.network.broker_steps import (
    ID_BYTES,
    Advertise,
    Answer,
    Deliver,
    DropEvents,
    FrameFrom,
    FrameTo,
    Input,
    KeepEvents,
    KeepKnown,
    NeighbourGone,
    Notice,
    Output,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
    WakeAt,
    Withdraw,
)
from penstock.network.client_desk import ClientDesk, Turn
from penstock.network.client_frames import (
    Ask,
    Describe,
    Reply,
    Status,
    Take,
    encode_frame,
    read_asked,
)
from penstock.network.host_store import (
    ADVERTISEMENT,
    SUBSCRIPTION,
    Change,
    ForgetClient,
    HostStore,
    Mail,
)
from penstock.network.links.in_process_link import Switchboard
from penstock.network.links.link import CLIENT_MARK, Link, NetworkError, Receiver
from penstock.network.mail_delivery import MailDelivery

_log = logging.getLogger("penstock.network")

_AT_ONCE = 1_000  # inputs that are taken before their effects are written
_NOTICES = 100
_TIDY = 1.0  # seconds after which changes that can wait are written, if nothing else is
_MOST_LATER = 10_000  # changes that wait, at most
_REQUESTS = (Subscribe, Unsubscribe, Advertise, Withdraw, Publish)
_END = object()

OpenLink = Callable[[Receiver], Link]


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a host holds for its clients: bytes of mail for each, beyond which the oldest mail is dropped."""

    mail_bytes: int = 1 << 30


@dataclass(slots=True)
class _Effects:
    """The effects of some steps: all changes are made first, then the rest is sent."""

    changes: list[Change] = field(default_factory=list)
    frames: list[tuple[str, bytes]] = field(default_factory=list)
    takes: list[tuple[str, Take]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Counts:
    """What has gone over the link to one neighbour."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class BrokerHost:
    """A broker that runs, until `close`."""

    def __init__(
        self,
        settings: BrokerSettings,
        folder: Path,
        open_link: OpenLink,
        limits: HostLimits | None = None,
    ) -> None:
        self.name = settings.name
        self._store = HostStore(folder)
        self._inputs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._effects: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ended = threading.Event()
        self.failed: BaseException | None = None
        self._ways: dict[str, Link] = {}
        self._counts: dict[str, _Counts] = {}
        self._totals: Counter[str] = Counter()
        self._notices: deque[dict[str, str]] = deque(maxlen=_NOTICES)
        self._later: list[Change] = []
        self._wake = 0.0
        self._frames: list[Input] = []  # of neighbours, for the next step
        try:
            settings = replace(settings, incarnation=self._store.count_start())
            self._settings = settings
            self._arrow = settings.schema.to_arrow()
            self._desk = ClientDesk(self._arrow, self._store.texts(), self._store.recent())
            limits = limits or HostLimits()
            self._mail = MailDelivery(self._store, limits.mail_bytes, self._send)
            self._broker = Broker(settings)
            self._here = Switchboard()
            self._here_link = self._here.join(self.name, Receiver(self._from_here, _ignore))
            self._link = open_link(Receiver(self._from_link, self._lives))
        except BaseException:
            self._store.close()
            raise
        self._began = time.monotonic()
        self._epoch = time.time() - self._began
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=name, daemon=True)
            for work, name in ((self._step, "broker"), (self._write, "broker-disk"))
        ]
        for thread in self._threads:
            thread.start()

    # --- from outside ------------------------------------------------------------------------------

    def join_here(self, client: str, receiver: Receiver) -> Link:
        """A link for a client in this process."""
        return self._here.join(client, receiver)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, by itself or by `close`."""
        return self._ended.wait(timeout)

    def close(self) -> None:
        """End, once everything that was taken in is written and sent."""
        self._inputs.put(_END)
        for thread in self._threads:
            thread.join()
        self._link.close()
        self._here_link.close()
        self._store.close()

    def _from_link(self, sender: str, frame: bytes) -> None:
        self._inputs.put((False, sender, frame))

    def _from_here(self, sender: str, frame: bytes) -> None:
        self._inputs.put((True, sender, frame))

    def _lives(self, name: str, lives: bool) -> None:
        if not lives:
            self._inputs.put((False, name, None))

    # --- the thread that steps -----------------------------------------------------------------------

    def _step(self) -> None:
        effects = _Effects()
        self._take(effects, self._start())
        self._effects.put(effects)
        ending = False
        while not ending:
            given = self._next_inputs()
            ending = given[-1] is _END
            effects = _Effects()
            for one in given:
                if one is not _END:
                    self._receive(one, effects)
            self._turn(self._desk.publish(), effects)
            if self._frames or self._now() >= self._wake:
                self._take(effects)
            self._effects.put(effects)
        self._effects.put(_END)

    def _now(self) -> float:
        """Seconds since 1970, on a clock that never goes back while this runs."""
        return self._epoch + time.monotonic()

    def _next_inputs(self) -> list[Any]:
        """Wait for an input, and take all others that are there. [None] if time has passed and none has come."""
        given: list[Any] = []
        left = max(0.0, self._wake - self._now()) if self._wake < math.inf else None
        try:
            given.append(self._inputs.get(timeout=left))
            while len(given) < _AT_ONCE and given[-1] is not _END:
                given.append(self._inputs.get_nowait())
        except queue.Empty:
            pass
        return given or [None]

    def _start(self) -> Start:
        texts = {
            kind: tuple((t.number, t.text) for t in self._desk.texts if t.kind == kind)
            for kind in (SUBSCRIPTION, ADVERTISEMENT)
        }
        kept, (known, joined) = self._store.kept(), self._store.known()
        return Start(texts[SUBSCRIPTION], texts[ADVERTISEMENT], kept, known, joined)

    def _receive(self, given: Any, effects: _Effects) -> None:
        if given is None:
            return
        is_here, sender, frame = given
        if frame is None:
            if sender.startswith(CLIENT_MARK):
                effects.left.append(sender)
            else:
                self._frames.append(NeighbourGone(sender))
            return
        if not sender.startswith(CLIENT_MARK):
            counts = self._counts.setdefault(sender, _Counts())
            counts.frames_in += 1
            counts.bytes_in += len(frame)
            self._frames.append(FrameFrom(sender, frame))
            return
        self._ways[sender] = self._here_link if is_here else self._link
        try:
            asked = read_asked(frame)
        except NetworkError as error:
            _log.warning("%s: %s", sender, error)
            return
        if isinstance(asked, Take):
            effects.takes.append((sender, asked))
        elif isinstance(asked.wish, Describe | Status):
            effects.frames.append((sender, encode_frame(self._tell(sender, asked))))
        else:
            self._turn(self._desk.ask(sender, asked), effects)

    def _tell(self, client: str, ask: Ask) -> Reply:
        if isinstance(ask.wish, Describe):
            return Reply(ask.life, ask.number, None, self._settings.schema.to_json().encode())
        return Reply(ask.life, ask.number, None, msgspec.json.encode(self._status()))

    def _turn(self, turns: list[tuple[str, Turn]], effects: _Effects) -> None:
        """Carry out the turns that clients' wishes, or answers to them, lead to. More may follow from these."""
        ahead = deque(turns)
        while ahead:
            client, turn = ahead.popleft()
            if isinstance(turn, Reply):
                effects.frames.append((client, encode_frame(turn)))
            elif isinstance(turn, _REQUESTS):
                for answer in self._take(effects, turn):
                    ahead += self._desk.answer(answer)
            else:
                assert not isinstance(
                    turn, Subscribe | Unsubscribe | Advertise | Withdraw | Publish
                )
                effects.changes.append(turn)

    def _take(self, effects: _Effects, given: Input | None = None) -> list[Answer]:
        """Make a step, with the frames that wait and then what is `given`, and note its effects.

        If a request is given, the answers are returned; otherwise they are handled here.
        """
        answers = []
        inputs, self._frames = self._frames if given is None else [*self._frames, given], []
        self._wake = math.inf  # each step says when the next one is due, if one is
        for output in self._broker.step_all(inputs, self._now()):
            if isinstance(output, Answer):
                answers.append(output)
            else:
                self._note(output, effects)
        if not isinstance(given, _REQUESTS):
            for answer in answers:
                self._turn(self._desk.answer(answer), effects)
            return []
        return answers

    def _note(self, output: Output, effects: _Effects) -> None:
        match output:
            case FrameTo(neighbour, frame):
                effects.frames.append((neighbour, frame))
            case Deliver():
                mail = self._desk.deliver(output)
                effects.changes += mail
                sizes = [len(one.batch.ids) for one in mail if isinstance(one, Mail)]
                self._totals["delivered"] += sum(sizes) // ID_BYTES
            case KeepEvents() | DropEvents() | KeepKnown():
                effects.changes.append(output)
            case Notice(kind, about, text):
                self._totals[f"notices_{kind}"] += 1
                self._notices.append({"kind": kind, "about": about, "text": text})
                _log.info("%s: %s", self.name, text)
            case WakeAt(at):
                self._wake = at

    def _status(self) -> dict[str, Any]:
        texts = Counter(text.kind for text in self._desk.texts)
        return {
            "name": self.name,
            "rank": self._settings.place.rank,
            "incarnation": self._settings.incarnation,
            "seconds": round(time.monotonic() - self._began, 3),
            "broker": msgspec.to_builtins(read_status(self._broker)),
            "links": {name: asdict(counts) for name, counts in self._counts.items()},
            "clients": {
                "subscriptions": texts[SUBSCRIPTION],
                "advertisements": texts[ADVERTISEMENT],
                "texts": Counter(text.client for text in self._desk.texts),
                "mail": self._mail.figures(),
            },
            "totals": dict(self._totals),
            "notices": list(self._notices),
        }

    # --- the thread that writes ----------------------------------------------------------------------

    def _write(self) -> None:
        ending = False
        while not ending:
            given: list[Any] = []
            with contextlib.suppress(queue.Empty):
                given.append(self._effects.get(timeout=_TIDY if self._later else None))
                while given[-1] is not _END:
                    given.append(self._effects.get_nowait())
            ending = bool(given) and given[-1] is _END
            self._carry_out([one for one in given if one is not _END])
            if self._later and (not given or ending):
                self._store.write(self._later)
                self._later = []

    def _carry_out(self, given: list[_Effects]) -> None:
        changes: list[Change] = []
        for change in _without_what_went([c for effects in given for c in effects.changes]):
            (self._later if isinstance(change, DropEvents) else changes).append(change)
        for effects in given:
            for client, take in effects.takes:
                if (done := self._mail.take(client, take)) is not None:
                    self._later.append(done)
            for client in effects.left:
                self._mail.leave(client)
        if changes or len(self._later) > _MOST_LATER:
            self._store.write([*changes, *self._later])
            self._later = []
            for change in changes:
                if isinstance(change, Mail):
                    self._mail.note_stored(change)
                elif isinstance(change, ForgetClient):
                    self._mail.forget(change.client)
            if over := self._mail.over_the_bound():
                self._store.write(over)
        for effects in given:
            for name, frame in effects.frames:
                self._send(name, frame)
        self._mail.push()

    def _send(self, name: str, frame: bytes) -> None:
        if name.startswith(CLIENT_MARK):
            self._ways.get(name, self._link).send(name, frame)
            return
        counts = self._counts.setdefault(name, _Counts())
        counts.frames_out += 1
        counts.bytes_out += len(frame)
        self._link.send(name, frame)

    def _guard(self, work: Callable[[], None]) -> None:
        """A thread that fails ends the other one."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001  after any error, nothing goes on
            _log.exception("the broker ends")
            self.failed = self.failed or error
            self._inputs.put(_END)
            self._effects.put(_END)
        finally:
            self._ended.set()


def _without_what_went(changes: list[Change]) -> list[Change]:
    """The changes without those that put events into the outbox and take them out again: these events are done."""
    gone = {change.number for change in changes if isinstance(change, DropEvents)}
    if not gone:
        return changes
    brief = {c.number for c in changes if isinstance(c, KeepEvents) and c.number in gone}
    return [
        change
        for change in changes
        if not (isinstance(change, KeepEvents | DropEvents) and change.number in brief)
    ]


def _ignore(name: str, lives: bool) -> None:
    """Nobody needs to know who is on the switchboard."""
