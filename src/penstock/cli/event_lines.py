"""Publishes lines of JSON into a network as they come. Many are under way at once; a bad one doesn't stop others."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.network.arrow_events import batch_of_json
from penstock.network.links.link import NetworkError
from penstock.network.network_client import NetworkClient

_UNDER_WAY = 1_000  # lines that the broker hasn't answered yet
_REASONS = 10


@dataclass(slots=True)
class PublishedLines:
    """How many lines were published, and why others weren't."""

    events: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why the first ten were refused."""

    def refuse(self, number: int, reason: object) -> None:
        self.refused += 1
        if self.refused <= _REASONS:
            self.reasons.append(f"line {number}: {reason}")


def publish_lines(client: NetworkClient, lines: Iterable[bytes]) -> PublishedLines:
    """Publish each line that isn't empty as an event; return when the broker keeps them all."""
    found = PublishedLines()
    waiting: deque[tuple[int, Future[bytes]]] = deque()

    def settle() -> None:
        number, answer = waiting.popleft()
        try:
            answer.result()
            found.events += 1
        except NetworkError as error:
            found.refuse(number, error)

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            batch = batch_of_json([line], client.arrow)
        except NetworkError as error:
            found.refuse(number, error)
            continue
        waiting += [(number, answer) for answer in client.publish_later(batch)]
        while len(waiting) > _UNDER_WAY or (waiting and waiting[0][1].done()):
            settle()
    while waiting:
        settle()
    return found
