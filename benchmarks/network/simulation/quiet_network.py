"""Brokers over links that lose nothing and take no time: for experiments, and to see what a fresh network builds."""

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.network.broker import Broker
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import (
    Answer,
    Deliver,
    FrameFrom,
    FrameTo,
    Input,
    Output,
    Start,
)

_TICK = 1e-6


class QuietNetwork:
    """Brokers by name. `give` an input and everything that follows from it happens before it returns.

    A broker takes together what waits for it when its turn comes, as a host does.

    `frames` and `bytes` count what went over links.
    """

    def __init__(self, heard: Callable[[str, Output], None] | None = None) -> None:
        self.brokers: dict[str, Broker] = {}
        self.now = 0.0
        self.frames = 0
        self.bytes = 0
        self.answers: Counter[int] = Counter()
        self.errors: dict[int, str] = {}
        self.delivered: list[tuple[str, Deliver]] = []
        self._heard = heard
        self._waiting: dict[str, list[Input]] = {}  # in the order of their turns

    def start(self, settings: Iterable[BrokerSettings], starts: dict[str, Start]) -> None:
        """Start brokers, parents before children."""
        for one in settings:
            self.brokers[one.name] = Broker(one)
            self.give(one.name, starts.get(one.name, Start()))

    def give(self, name: str, given: Input) -> None:
        """An input for a broker, and all that follows."""
        self.give_all(name, [given])

    def give_all(self, name: str, given: Iterable[Input]) -> None:
        """Inputs for a broker, one step each; and then all that follows, which waits for the others meanwhile."""
        for one in given:
            self._step(name, [one])
        while self._waiting:
            to = next(iter(self._waiting))
            self._step(to, self._waiting.pop(to))

    def _step(self, name: str, given: list[Input]) -> None:
        self.now += _TICK
        for output in self.brokers[name].step_all(given, self.now):
            self._take(name, output)

    def _take(self, name: str, output: Output) -> None:
        match output:
            case FrameTo(neighbour, frame):
                self.frames += 1
                self.bytes += len(frame)
                if neighbour in self.brokers:
                    self._waiting.setdefault(neighbour, []).append(FrameFrom(name, frame))
            case Answer(request, error):
                self.answers[request] += 1
                if error is not None:
                    self.errors[request] = error
            case Deliver():
                self.delivered.append((name, output))
        if self._heard is not None:
            self._heard(name, output)
