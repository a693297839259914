"""A producer with a name: records that it has published before, in this run or another, aren't published again.

    records    0 1 2 … 999 │ 1000 … 1999 │ 2000 …          numbered as they come, the same in each run
    requests   epoch 1000  │ epoch 2000  │ …               seq 0; an epoch is the number of records up to its end

The service keeps the last epoch of a producer, in one transaction with its records. It refuses a request with a lower
epoch as stale, and its answer has the last epoch: the number of records that the service has. These are left out. The
first request has only one record, to find that number out. So nothing has to be kept on this side, a run that was cut
off goes on where it was, and of a file that has grown only the new records are published.

Where a request ends depends only on the records. So two runs at the same time send the same requests, and each request
counts once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.errors import PenstockError, RecordsRefused, ServiceError
from penstock.server.remote.outbox import JSON_LINES, refusal_of
from penstock.server.remote.service_link import Request, ServiceLink

_MOST_RECORDS = 1_000  # in one request
_MOST_BYTES = 1 << 20
_LONGEST = 255
_REPORTED = 1_000  # refused records that are kept for the report


class PublishedOnce(NamedTuple):
    """How many records were published, how many had been before, and the position of the last."""

    accepted: int
    before: int
    last: int | None


@dataclass
class NamedProducer:
    """Publishes the records of one log under a name."""

    link: ServiceLink
    log: str
    name: str
    content_type: str = JSON_LINES
    _read: int = field(default=0, init=False)
    _there: int = field(default=0, init=False)
    """Records that the service has."""
    _accepted: int = field(default=0, init=False)
    _last: int | None = field(default=None, init=False)
    _refused: list[tuple[str, str]] = field(default_factory=list, init=False)
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not (
            1 <= len(self.name) <= _LONGEST and self.name.isascii() and self.name.isprintable()
        ):
            raise PenstockError(
                f"a producer's name has 1 to {_LONGEST} characters of ASCII that can be printed, not {self.name!r}"
            )

    def publish(self, records: Iterable[bytes]) -> PublishedOnce:
        """Publish the records that the service lacks. RecordsRefused lists those that it refuses; it has the rest."""
        for batch in _batches(records):
            self._read += len(batch)
            if (missing := self._read - self._there) > 0:
                self._send(batch[-missing:], self._read)
        if self._there > self._read:
            raise PenstockError(
                f"the producer {self.name!r} has published {self._there:,} records, and these are {self._read:,}: they "
                "are others, or some were taken away. Give what is to be published anew another name"
            )
        if self._count:
            raise RecordsRefused(self._refused, self._count, self._accepted)
        return PublishedOnce(self._accepted, self._read - self._accepted, self._last)

    def _send(self, batch: list[bytes], end: int) -> None:
        """Send records of which the last is number `end`, counted from 1."""
        headers = {
            "Content-Type": self.content_type,
            "Producer-Id": self.name,
            "Producer-Epoch": str(end),
            "Producer-Seq": "0",
        }
        path, params = (
            f"/v1/{self.log}",
            {"on_error": "skip"} if self.content_type == JSON_LINES else {},
        )
        request = Request("POST", path, body=b"\n".join(batch), headers=headers, params=params)
        try:
            answer = self.link.call(request)
        except ServiceError as error:
            self._take_error(error, batch, end)
            return
        self._there = end
        said = answer.value()
        self._last = said["last"] or self._last
        if answer.status == 202:  # else it was published before
            self._accepted += said["accepted"]
            self._note(batch, said["refused"])

    def _take_error(self, error: ServiceError, batch: list[bytes], end: int) -> None:
        """Leave out what was published before, halve what is too large, note what is refused."""
        problem = error.problem
        match problem.get("type", "").rpartition(":")[2]:
            case "stale-producer":
                self._there = int(problem["epoch"])
                if (missing := end - self._there) > 0:
                    self._send(batch[-missing:], end)
            case "too-large" if len(batch) > 1:
                middle = len(batch) // 2
                self._send(batch[:middle], end - len(batch) + middle)
                self._send(batch[middle:], end)
            case "invalid-records":
                self._note(batch, problem["refused"])
            case "too-large":
                self._note(batch, [{"index": 0, "reason": str(error).partition("\n")[0]}])
            case _:
                raise error

    def _note(self, batch: list[bytes], refused: Iterable[Mapping[str, Any]]) -> None:
        for one in refused:
            self._count += 1
            if len(self._refused) < _REPORTED:
                record = batch[one["index"]].decode(errors="replace")
                self._refused.append((record, refusal_of(one)))


def _batches(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide records into requests: the first record alone, then up to `_MOST_RECORDS` and `_MOST_BYTES` each.

    >>> [len(batch) for batch in _batches([b"{}"] * 2500)]
    [1, 1000, 1000, 499]
    """
    batch: list[bytes] = []
    size, most = 0, 1
    for record in records:
        if batch and (len(batch) == most or size + len(record) > _MOST_BYTES):
            yield batch
            batch, size, most = [], 0, _MOST_RECORDS
        batch.append(record)
        size += len(record)
    if batch:
        yield batch
