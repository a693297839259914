"""Published records that aren't acknowledged yet. A thread sends them in order, in as few requests as possible.

    publish ─▶ queue (bounded) ─▶ one request at a time ─▶ 202: done; refused: kept for `flush` to report

While one request is on its way, newly published records gather for the next. So no record waits for a batch to fill,
and batches are large when there is much to do. One request at a time keeps the order.

Each request has a number in its log (`Producer-Id`, `-Epoch`, `-Seq`), by which the service recognises a repetition. So
a request can be sent until it is answered, and is published once. After an answer that refuses a whole request, a new
epoch begins: then it makes no difference whether the service counts the number as used.
"""

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx

from penstock.base.errors import (
    PenstockError,
    RecordsRefused,
    ServiceError,
    ServiceUnreachable,
)
from penstock.server.remote.back_off import BackOff
from penstock.server.remote.problem_errors import strange_answer
from penstock.server.remote.service_link import (
    BUSY,
    Answer,
    Request,
    ServiceLink,
    retry_after,
    unreachable,
)

_MOST_RECORDS = 1_000  # in one request
_MOST_BYTES = 1 << 20
_ROOM = 16 << 20  # bytes that may wait; beyond that, `publish` waits
_REPORTED = 1_000  # refused records that are kept for the report

JSON_LINES = "application/x-ndjson"


class Sent(NamedTuple):
    """The answer of `flush`: how many records were published since the last one, and the position of the last."""

    accepted: int
    last: int | None


class _Numbers(NamedTuple):
    """The number of the next request of a log. Each log is numbered by itself."""

    epoch: int
    seq: int


_FIRST = _Numbers(0, 0)


@dataclass(slots=True)
class _Batch:
    """Records of one log that go in one request."""

    log: str
    content_type: str
    records: list[bytes] = field(default_factory=list)
    size: int = 0  # bytes

    @property
    def source(self) -> tuple[str, str]:
        """The log as the service numbers requests: documents in XML and in JSON are two logs."""
        return self.log, self.content_type

    def add(self, record: bytes) -> None:
        self.records.append(record)
        self.size += len(record)

    def takes(self, log: str, content_type: str, record: bytes) -> bool:
        """Whether a record may go in the same request. A document goes alone."""
        return (
            self.log == log
            and self.content_type == content_type == JSON_LINES
            and len(self.records) < _MOST_RECORDS
            and self.size + len(record) <= _MOST_BYTES
        )

    def halves(self) -> "tuple[_Batch, _Batch]":
        """The first and the second half of it."""
        middle = len(self.records) // 2
        found = _Batch(self.log, self.content_type), _Batch(self.log, self.content_type)
        for place, record in enumerate(self.records):
            found[place >= middle].add(record)
        return found


@dataclass(slots=True)
class _Report:
    """The outcome of the records since the last flush."""

    accepted: int = 0
    last: int | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def refuse(self, record: bytes, reason: str) -> None:
        self.count += 1
        if len(self.refused) < _REPORTED:
            self.refused.append((record.decode(errors="replace"), reason))


class Outbox:
    """Sends records in the background. Threads may share it."""

    def __init__(self, link: ServiceLink, clock: Callable[[], float] = time.monotonic) -> None:
        self._link, self._clock = link, clock
        self._queue: deque[_Batch] = deque()
        self._on_its_way: _Batch | None = None
        self._bytes = 0  # in the queue and on their way
        self._changed = threading.Condition()
        self._report = _Report()
        self._trouble: PenstockError | None = None  # why the request on its way isn't answered
        self._barred: PenstockError | None = None  # the service takes nothing from this client
        self._answered = clock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._producer = str(uuid.uuid4())
        self._numbers: dict[tuple[str, str], _Numbers] = {}  # of the next request, by log

    def put(self, log: str, records: Iterable[bytes], content_type: str = JSON_LINES) -> None:
        """Queue records to be published, in order. Waits while there is no room."""
        with self._changed:
            for record in records:
                self._changed.wait_for(lambda: self._bytes < _ROOM or self._barred)
                if self._barred is not None:
                    raise self._barred
                if self._closing.is_set():
                    raise PenstockError("the client is closed: make another one to publish")
                if self._bytes == 0:
                    self._answered = self._clock()
                if not (self._queue and self._queue[-1].takes(log, content_type, record)):
                    self._queue.append(_Batch(log, content_type))
                    self._changed.notify_all()
                self._queue[-1].add(record)
                self._bytes += len(record)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._send_all, daemon=True)
                    self._thread.start()

    def flush(self, patience: float) -> Sent:
        """Wait until everything is answered. RecordsRefused lists what wasn't published since the last flush.

        ServiceUnreachable if nothing was answered for `patience` seconds; the records stay, and are tried again.
        """
        with self._changed:
            while self._bytes and self._barred is None:
                left = self._answered + patience - self._clock()
                if left <= 0:
                    raise self._still_waiting()
                self._changed.wait(left)
            report, self._report = self._report, _Report()
            barred, self._barred = self._barred, None
        if barred is not None:
            raise barred
        if report.count:
            raise RecordsRefused(report.refused, report.count, report.accepted)
        return Sent(report.accepted, report.last)

    def close(self, patience: float) -> Sent:
        """Flush, and end the thread."""
        try:
            return self.flush(patience)
        finally:
            with self._changed:
                self._closing.set()
                self._changed.notify_all()
            if self._thread is not None:
                self._thread.join()

    def _still_waiting(self) -> ServiceUnreachable:
        batches = [*self._queue, *([self._on_its_way] if self._on_its_way else ())]
        count = sum(len(batch.records) for batch in batches)
        said = f"{count:,} record{' is' if count == 1 else 's are'} not acknowledged yet"
        return ServiceUnreachable(f"{said}: {self._trouble or 'no answer came'}")

    # --- the thread ----------------------------------------------------------------------------

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing.is_set())
                if self._closing.is_set():
                    return
                batch = self._on_its_way = self._queue.popleft()
            answer = self._send(batch)
            with self._changed:
                if answer is None:
                    return
                self._on_its_way = self._trouble = None
                try:
                    self._settle(batch, answer)
                except (KeyError, TypeError, IndexError, ServiceError):
                    self._bar(strange_answer("a request", answer.status, answer.body))
                self._answered = self._clock()
                self._changed.notify_all()

    def _send(self, batch: _Batch) -> Answer | None:
        """Send a batch until it is answered; None if the outbox was closed meanwhile."""
        request, pauses = self._request(batch), BackOff()
        while not self._closing.is_set():
            try:
                answer = self._link.once(request)
                if answer.status not in BUSY and answer.status < 500:
                    return answer
                self._trouble = self._link.error(answer, request)
                pause = pauses.next_pause(retry_after(answer.headers))
            except httpx.RequestError as error:
                self._trouble = unreachable(self._link.url, error)
                pause = pauses.next_pause()
            self._closing.wait(pause)
        return None

    def _request(self, batch: _Batch) -> Request:
        numbers = self._numbers.get(batch.source, _FIRST)
        headers = {
            "Content-Type": batch.content_type,
            "Producer-Id": self._producer,
            "Producer-Epoch": str(numbers.epoch),
            "Producer-Seq": str(numbers.seq),
        }
        body = b"\n".join(batch.records)
        params = {"on_error": "skip"} if batch.content_type == JSON_LINES else {}
        return Request("POST", f"/v1/{batch.log}", body=body, headers=headers, params=params)

    def _settle(self, batch: _Batch, answer: Answer) -> None:
        """Note the answer to a batch."""
        self._bytes -= batch.size
        numbers = self._numbers.get(batch.source, _FIRST)
        if answer.status < 400:
            self._numbers[batch.source] = _Numbers(numbers.epoch, numbers.seq + 1)
            said = answer.value()
            # The answer to a repetition counts no record as accepted, since all were accepted before.
            self._report.accepted += len(batch.records) - len(said["refused"])
            self._report.last = said["last"] or self._report.last
            self._note_refused(batch, said["refused"])
            return
        error = self._link.error(answer, self._request(batch))
        self._numbers[batch.source] = _Numbers(numbers.epoch + 1, 0)
        if answer.status == 413 and len(batch.records) > 1:
            self._bytes += batch.size
            self._queue.extendleft(reversed(batch.halves()))
            return
        if answer.status in (401, 403):
            self._bar(error)
        elif refused := getattr(error, "problem", {}).get("refused"):
            self._note_refused(batch, refused)
        else:
            for record in batch.records:
                self._report.refuse(record, str(error).partition("\n")[0])

    def _bar(self, error: PenstockError) -> None:
        """Give up everything that waits: the service would refuse it, too."""
        self._barred, self._bytes = error, 0
        self._queue.clear()

    def _note_refused(self, batch: _Batch, refused: Sequence[dict[str, Any]]) -> None:
        for one in refused:
            self._report.refuse(batch.records[one["index"]], refusal_of(one))


def refusal_of(refused: Mapping[str, Any]) -> str:
    """Why a record was refused, with the attribute and the hint, if there are any.

    >>> refusal_of({"index": 0, "reason": "an integer is expected", "attribute": "n"})
    'n: an integer is expected'
    >>> refusal_of({"index": 0, "reason": "no attribute 'x'", "attribute": "x", "hint": "did you mean 'y'?"})
    "no attribute 'x', did you mean 'y'?"
    """
    reason, attribute = refused["reason"], refused.get("attribute")
    if attribute is not None and repr(attribute) not in reason:
        reason = f"{attribute}: {reason}"
    return f"{reason}, {refused['hint']}" if refused.get("hint") else reason
