"""Calls one operator, and turns whatever goes wrong into failures of single events.

An operator fails on an event if it raises, takes longer than its time-out, or answers the wrong type. A failure
concerns that event alone: the other events of the sub-batch go on, and the reason is kept for the dead letters.
`watched_calls` keeps to time-outs, `breaker` counts failures in a row.

**Batch operators** get at most as many events as should take a quarter of their time-out, judged by earlier calls. If
such a call raises, its halves are tried, down to single events: a single event among n that makes the call raise costs
about 2 log2 n calls more, and no event is looked at more than 1 + log2 n times. Trying all events one by one would lose
the advantage of a batch. A call that hangs fails all of its events: trying again would cost one more time-out and one
more thread.

**Isolated operators** are called in a process of their own (`isolated`). If the process ends, that is a failure, too.
The process can be killed at the time-out, so these calls need no thread.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.base.errors import OperatorError
from penstock.language.calls import Fixed, Given, Invocation
from penstock.language.signatures import Signature
from penstock.operators.answers import Answers, Failure, WrongAnswer, answering, failure_text
from penstock.operators.arguments import ArgumentColumn, constant
from penstock.operators.breaker import Breaker, Clock
from penstock.operators.isolated import IsolatedOperator, TookTooLong
from penstock.operators.watched_calls import HUNG, OnResult, Runner, Step

MOST_STUCK = 4  # threads that hang in calls of one operator; then it isn't called until one returns
MOST_AT_ONCE = 1024  # events in one call of a batch operator
_LONGEST_REASON = 300
_FORGET = 0.9  # the weight of earlier calls in the average cost of a row


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """Counts of an operator's calls. `rows` are all events it was needed for, whether or not it was called for them."""

    calls: int
    rows: int
    failures: int
    seconds: float
    breaker: str


class OperatorLine:
    """What all calls of one operator share: its thread or process, its breaker, and a lock by which they take turns."""

    def __init__(self, name: str, clock: Clock, isolated: IsolatedOperator | None = None) -> None:
        self.lock = threading.Lock()
        self.isolated = isolated
        self.runner = Runner(name)
        self.breaker = Breaker(name, clock, held=self._held)

    def _held(self) -> str | None:
        stuck = self.runner.stuck
        return f"{stuck} calls that were given up still hang" if stuck >= MOST_STUCK else None


class Prepared:
    """An invocation that is ready to be called: its constants are converted, its attributes have their places."""

    __slots__ = ("attributes", "constants", "has_null", "operator", "text")

    def __init__(self, invocation: Invocation, signature: Signature) -> None:
        arguments = invocation.arguments
        if len(arguments) != len(signature.parameters):
            raise OperatorError(
                f"{invocation}: operator {signature.name!r} takes {len(signature.parameters)} arguments"
            )
        self.operator = invocation.operator.lower()
        self.text = str(invocation)
        self.constants = [constant(a) if isinstance(a, Fixed) else None for a in arguments]
        self.attributes = [
            (place, a.path, wanted)
            for place, (a, wanted) in enumerate(zip(arguments, signature.parameters, strict=True))
            if isinstance(a, Given)
        ]
        self.has_null = any(isinstance(a, Fixed) and a.value is None for a in arguments)


@dataclass(slots=True)
class Request:
    """An invocation for some rows, and its answers. The rows `asked` have no NULL among the arguments."""

    desk: "Desk"
    prepared: Prepared
    given: list[tuple[int, ArgumentColumn]]
    rows: list[int]
    asked: list[int]
    found: list[Any] = field(default_factory=list)
    seconds: float = 0.0

    def arguments(self, read: Callable[[ArgumentColumn], Any]) -> list[Any]:
        """The operator's arguments; `read` gets the values of an attribute from its column."""
        arguments = self.prepared.constants.copy()
        for place, column in self.given:
            arguments[place] = read(column)
        return arguments

    def failure(self, reason: str, called: bool = True) -> Failure:
        """A failure of this invocation, to stand in the place of its answer."""
        text = f"{self.prepared.text}: {reason}"
        shown = text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
        return Failure(shown, called)

    @property
    def called(self) -> int:
        return sum(1 for a in self.found if type(a) is not Failure or a.called)

    def answers(self) -> Answers:
        by_row = dict(zip(self.asked, self.found, strict=True))
        found = [by_row.get(row) for row in self.rows]
        reasons = {i: a.reason for i, a in enumerate(found) if type(a) is Failure}
        failed = np.zeros(len(found), np.bool_)
        for i in reasons:
            failed[i], found[i] = True, None
        return Answers(
            found, self.desk.signature.result, failed, reasons, self.called, self.seconds
        )


class Desk:
    """Calls one operator and counts its calls."""

    def __init__(
        self, signature: Signature, function: Callable[..., Any], line: OperatorLine
    ) -> None:
        self.signature = signature
        self.line = line
        isolated = line.isolated
        self._call = answering(signature, function) if isolated is None else isolated.call
        self._calls = self._rows = self._failures = 0
        self._seconds = 0.0
        self._row_cost = signature.cost

    def _count(self, asked: Request) -> None:
        called = asked.called
        self._rows += len(asked.rows)
        self._failures += sum(1 for a in asked.found if type(a) is Failure)
        self._seconds += asked.seconds
        if not self.signature.batch:
            self._calls += called
        if called:
            self._row_cost = _FORGET * self._row_cost + (1 - _FORGET) * asked.seconds / called

    def stats(self) -> OperatorStats:
        return OperatorStats(
            self._calls, self._rows, self._failures, self._seconds, self.line.breaker.state
        )

    def answer(self, asked: Sequence[Request]) -> None:
        """Find the checked answer, or the failure, for each row of each."""
        if self.signature.batch:
            for one in asked:
                began = time.perf_counter()
                while len(one.found) < len(one.asked):
                    chunk = one.asked[len(one.found) : len(one.found) + self._at_once()]
                    one.found += self._halving(one, chunk)
                one.seconds = time.perf_counter() - began
        else:
            self._one_by_one([(one, row) for one in asked for row in one.asked])
        for one in asked:
            self._count(one)

    def _one_by_one(self, steps: list[tuple[Request, int]]) -> None:
        """Call the operator for each row; all rows are handed to its thread at once."""

        def step(i: int) -> Any:
            began = time.perf_counter()
            found = self._one(*steps[i])
            spent[i] = time.perf_counter() - began
            return found

        spent = [self.signature.timeout or 0.0] * len(steps)  # of those that never come back
        found = self._run(step, self._tell, [one for one, _ in steps])
        for (one, _), answer, seconds in zip(steps, found, spent, strict=True):
            one.found.append(answer)
            one.seconds += 0.0 if type(answer) is Failure and not answer.called else seconds

    def _tell(self, answer: Any) -> None:
        if type(answer) is not Failure:
            self.line.breaker.record_success()
        elif answer.called:
            self.line.breaker.record_failure(answer.reason)

    def _one(self, request: Request, row: int) -> Any:
        refusal = self.line.breaker.refusal()
        if refusal is not None:
            return request.failure(refusal, called=False)
        try:
            return self._call(request.arguments(lambda column: column.value(row)), 1)
        # Whatever an operator raises is its failure, and mustn't end the batch or the thread.
        except BaseException as error:  # noqa: BLE001
            return request.failure(failure_text(error))

    def _run(self, step: Step, on_result: OnResult, asked: Sequence[Request]) -> list[Any]:
        """The results of all steps, step i for asked[i]: in this thread if nothing ends them, else in the runner's."""
        timeout = self.signature.timeout
        results: list[Any] = []
        if timeout is None or self.line.isolated is not None:
            for i in range(len(asked)):
                results.append(step(i))
                on_result(results[-1])
            return results
        runner, breaker = self.line.runner, self.line.breaker
        while (done := len(results)) < len(asked):
            rest = step if not done else _shift(step, done)
            results += runner.run(rest, on_result, len(asked) - done, timeout)
            if results[-1] is not HUNG:
                break
            failure = asked[len(results) - 1].failure(
                f"took longer than its time-out of {timeout:g} s"
            )
            results[-1] = failure
            breaker.record_failure(failure.reason)
            if runner.stuck >= MOST_STUCK:
                breaker.open()
                refusal = breaker.refusal()
                if refusal is not None:
                    results += [one.failure(refusal, called=False) for one in asked[len(results) :]]
        return results

    # --- batch operators -----------------------------------------------------------------------

    def _at_once(self) -> int:
        timeout = self.signature.timeout
        if timeout is None:
            return MOST_AT_ONCE
        return max(1, min(MOST_AT_ONCE, math.floor(timeout / (4 * max(self._row_cost, 1e-9)))))

    def _halving(self, request: Request, rows: list[int]) -> list[Any]:
        """The answers of some rows; if a call for them raises, those of either half."""
        breaker = self.line.breaker
        refusal = breaker.refusal()
        if refusal is not None:
            return [request.failure(refusal, called=False)] * len(rows)
        self._calls += 1
        (found,) = self._run(lambda _: self._many(request, rows), lambda _: None, [request])
        if isinstance(found, list):
            if all(type(answer) is Failure for answer in found):
                breaker.record_failure(found[-1].reason)
            else:
                breaker.record_success()
            return found
        if isinstance(found, _Raised) and len(rows) > 1:
            half = len(rows) // 2
            return [*self._halving(request, rows[:half]), *self._halving(request, rows[half:])]
        if isinstance(found, _Raised):
            found = found.failure
            breaker.record_failure(found.reason)
        return [found] * len(rows)

    def _many(self, request: Request, rows: list[int]) -> "list[Any] | _Raised":
        try:
            answers = self._call(request.arguments(lambda column: column.values(rows)), len(rows))
        # Whatever an operator raises is its failure, and mustn't end the batch or the thread.
        except BaseException as error:  # noqa: BLE001
            failure = request.failure(failure_text(error))
            # A shape that is wrong for many is wrong for few; and what took too long isn't tried again.
            final = isinstance(error, WrongAnswer | TookTooLong)
            return [failure] * len(rows) if final else _Raised(failure)
        return [request.failure(a.reason) if type(a) is Failure else a for a in answers]


def _shift(step: Step, done: int) -> Step:
    return lambda i: step(done + i)


@dataclass(frozen=True, slots=True)
class _Raised:
    """A call for several events that raised: which of the events is to blame isn't known yet."""

    failure: Failure
