"""Reads the body of a request: one record, an array, or lines, as its content type says.

    application/json                       an object, or an array of objects
    application/x-ndjson (jsonl, jsonlines) an object on each line
    application/cloudevents+json …         `cloud_events`

All records are read in one call. Only if that fails are they read one by one, to say which are refused and why.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from penstock.language.types import Struct
from penstock.server.publishing.cloud_events import (
    has_context_headers,
    read_batch,
    read_binary,
    read_structured,
    with_context,
)
from penstock.server.publishing.learning_types import Learner
from penstock.server.publishing.published import MessageLimit, PublishError
from penstock.server.publishing.record_problems import Problem, Refused, find_problem, read_object
from penstock.server.publishing.record_shapes import Misfit, RecordShape

JSON_LINES = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-lines",
)
_BLANK = b" \t\r\n"
_MOST_HINTS = 20
"""The most refused records of a request for which a similar name is looked up: that costs more than all else."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)


class BadRequest(PublishError):
    """A body that can't be read at all."""


class UnknownContent(PublishError):
    """A content type that isn't taken."""


class TooLarge(PublishError):
    """A request, or one of its records, that is larger than is taken."""


@dataclass(frozen=True)
class BodyLimits:
    """How much one request may bring."""

    body: int = 8 << 20  # bytes
    record: int = (
        1_000_000  # bytes: with its position it still is a message that Kafka takes by default
    )
    records: int = 10_000
    message: MessageLimit | None = None  # the limit of the log, if it is known

    @property
    def one_record(self) -> int:
        """The most bytes that a record may have."""
        return self.record if self.message is None else min(self.record, self.message.bytes)

    def refusal(self, size: int) -> str:
        """Why a record of this size isn't taken."""
        if self.message is not None and self.message.bytes < self.record:
            return self.message.refusal(size)
        return f"has {size:,} bytes: a record has at most {self.record:,}"


@dataclass(frozen=True)
class Reading:
    """What a body has: records that can be published, and refused records with the reasons.

    `wider` is the schema that the records need, if that must be learned first.
    """

    records: Sequence[bytes]
    refused: Sequence[Refused] = ()
    wider: Struct | None = None


def read_records(
    content_type: str,
    headers: Mapping[str, str],
    body: bytes,
    shape: RecordShape,
    *,
    learn: bool = False,
    limits: BodyLimits = BodyLimits(),  # noqa: B008 - it is immutable
) -> Reading:
    """The records of a request. With `learn`, attributes that the shape doesn't have yet are no mistake.

    `headers` have lower-case names; only those of CloudEvents (`ce-…`) are looked at.

    >>> from penstock.server.publishing.attribute_types import root_of
    >>> shape = RecordShape(root_of({"symbol": "string", "price": "double"}))
    >>> read_records("application/json", {}, b'[{"price": 5}, {"prise": 5}]', shape)
    Reading(records=[b'{"price":5.0}'], refused=[Refused(index=1, attribute='prise',
      reason="the schema has no attribute 'prise'", hint="did you mean 'price'?")], wider=None)
    """
    if len(body) > limits.body:
        raise TooLarge(
            f"the body has {len(body):,} bytes: at most {limits.body:,} are taken at once"
        )
    media, _, rest = content_type.partition(";")
    media = media.strip().lower()
    if "charset" in rest.lower() and "utf-8" not in rest.lower().replace("utf8", "utf-8"):
        raise UnknownContent(f"JSON is UTF-8, not {rest.strip()!r}")
    body = body.removeprefix(b"\xef\xbb\xbf").strip(_BLANK)
    reader = _Reader(shape, learn, limits)
    if media == "application/cloudevents+json":
        return reader.cloud_events([read_structured(body, shape.root, learn)])
    if media == "application/cloudevents-batch+json":
        parts = reader.array_parts(body)
        return reader.cloud_events(read_batch(parts, shape.root, learn))
    if media.startswith("application/cloudevents"):
        raise UnknownContent(f"CloudEvents are taken as JSON, not as {media!r}")
    if has_context_headers(headers):
        return reader.cloud_events([read_binary(content_type, headers, body, shape.root, learn)])
    if media in JSON_LINES:
        return reader.lines(body)
    if media in ("application/json", "text/json", "") or media.endswith("+json"):
        return reader.json(body)
    raise UnknownContent(
        f"{media!r} is not taken: send application/json, application/x-ndjson or CloudEvents as JSON"
    )


@dataclass(frozen=True)
class _Reader:
    shape: RecordShape
    learn: bool
    limits: BodyLimits

    def json(self, body: bytes) -> Reading:
        if not body:
            raise BadRequest("the body is empty: send a JSON object or an array of them")
        if body[:1] == b"[":
            return self._all(self.shape.read_array, body, self.array_parts)
        return self._all(lambda given: [self.shape.read_one(given)], body, lambda given: [given])

    def lines(self, body: bytes) -> Reading:
        if not body:
            raise BadRequest("the body is empty: send a JSON object on each line")
        lines = _split_lines(body)
        self._check_count(len(lines))
        if body.count(b"{") > self._most_braces:
            # Perhaps there are several on a line: they aren't decoded all at once.
            return self.one_by_one(lines)

        def read(given: bytes) -> list[bytes]:
            records = self.shape.read_lines(given)
            if len(records) != len(lines):
                raise Misfit("several records on a line")
            return records

        return self._all(read, body, lambda _: lines)

    def array_parts(self, body: bytes) -> list[bytes]:
        """The text of each element of an array."""
        if body.count(b",") >= self.limits.records:
            self._check_count(_count_elements(body, self.limits.records))
        try:
            parts = msgspec.json.decode(body, type=list[msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError) as error:
            message = "it nests too deep" if isinstance(error, RecursionError) else str(error)
            raise BadRequest(f"the body is not a JSON array: {message}") from None
        return [bytes(part) for part in parts]

    def _all(
        self,
        read: Callable[[bytes], list[bytes]],
        body: bytes,
        split: Callable[[bytes], list[bytes]],
    ) -> Reading:
        # Each record has at least one brace. With few braces, the decoder makes few objects.
        if body.count(b"{") > self._most_braces:
            self._check_count(len(split(body)))
        try:
            records = read(body)
        except Misfit:
            return self.one_by_one(split(body))
        self._check_count(len(records))
        most = self.limits.one_record
        if len(body) > most and max(map(len, records)) > most:
            return self.one_by_one(records)
        return Reading(records)

    def cloud_events(self, parts: Iterable[bytes | Problem]) -> Reading:
        return self.one_by_one(parts, with_context(self.shape.root))

    def one_by_one(self, parts: Iterable[bytes | Problem], known: Struct | None = None) -> Reading:
        """Read records one by one: those that can't be read get a reason, and the others are taken."""
        given = list(parts)
        self._check_count(len(given))
        learner = Learner(known or self.shape.root) if self.learn else None
        refused: list[Refused] = []
        good: list[tuple[int, bytes]] = []
        for index, part in enumerate(given):
            try:
                good.append((index, self._fitting(part, learner, len(refused) < _MOST_HINTS)))
            except Problem as problem:
                refused.append(problem.of_record(index))
        if learner is None:
            return Reading([record for _, record in good], refused)
        wider = RecordShape(learner.root, self.shape.version)
        records: list[bytes] = []
        for index, record in good:
            try:
                records.append(wider.read_one(record))
            except Misfit:
                refused.append(find_problem(read_object(record), wider).of_record(index))
        refused.sort(key=lambda one: one.index)
        is_wider = bool(records) and learner.root != self.shape.root
        return Reading(records, refused, learner.root if is_wider else None)

    def _fitting(self, part: bytes | Problem, learner: Learner | None, hints: bool) -> bytes:
        """A record that has the shape, or that fits what has been learned."""
        if isinstance(part, Problem):
            raise part
        if len(part) > self.limits.one_record:
            raise Problem(None, self.limits.refusal(len(part)))
        try:
            return self.shape.read_one(part)
        except Misfit:
            value = read_object(part)
            if learner is None:
                raise find_problem(value, self.shape, hints=hints) from None
            return msgspec.json.encode(learner.learn(value))

    @property
    def _most_braces(self) -> int:
        return 10 * self.limits.records

    def _check_count(self, count: int) -> None:
        if count > self.limits.records:
            raise TooLarge(f"{count:,} records: at most {self.limits.records:,} are taken at once")


def _count_elements(body: bytes, most: int) -> int:
    """How many elements an array has, without making them. Counting ends as soon as there are more than `most`."""
    depth, count = 0, 1
    for found in _TOKEN.finditer(body):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
        elif token in (b"]", b"}"):
            depth -= 1
        elif token == b"," and depth == 1:
            count += 1
            if count > most:
                break
    return count


def _split_lines(body: bytes) -> list[bytes]:
    return [line for line in body.split(b"\n") if line.strip(_BLANK)]
