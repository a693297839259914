"""Where one operator is called, whatever it does.

An operator fails on an event if it raises, takes longer than its time-out, or answers the wrong type. A failure
concerns that event alone: the others of the sub-batch go on, and the reason is kept for the dead letters. Time-outs
are `watched_calls`'s business, failures in a row `breaker`'s.

**Batch operators** get at most as many events as should take a quarter of their time-out, by what calls took so far. If
such a call raises, its halves are tried, down to single events: a poisoned event among n costs about 2 log2 n calls
more, and no event is looked at more than 1 + log2 n times. Trying them one by one would lose what batching is for.
A call that hangs fails all of its events: trying again would cost one more time-out and one more thread.

**Isolated operators** are called in a process of their own (`isolated`), which may end: that is a failure, too. It can
be ended at the time-out, so their calls need no thread.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.base.errors import OperatorError
from penstock.language.calls import Fixed, Given, Invocation
from penstock.language.signatures import Signature
from penstock.operators.answers import (
    Answers,
    Refused,
    WrongAnswer,
    checker,
    elements,
    error_text,
)
from penstock.operators.arguments import ArgumentColumn, constant
from penstock.operators.breaker import Breaker, Clock
from penstock.operators.isolated import IsolatedOperator, TookTooLong
from penstock.operators.watched_calls import HUNG, Runner, Step, Told

MOST_STUCK = 4  # threads that hang in calls of one operator; then it isn't called until one returns
MOST_AT_ONCE = 1024  # events in one call of a batch operator
_LONGEST_REASON = 300
_MAIN = threading.main_thread()
_FORGET = 0.9  # of what calls took, at each call


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """What became of an operator's calls. `rows` are the events that were asked about, called for or not."""

    calls: int
    rows: int
    failures: int
    seconds: float
    breaker: str


class Failure:
    """In the place of an answer: why there is none. `called`: whether the operator was called at all."""

    __slots__ = ("called", "reason")

    def __init__(self, reason: str, called: bool = True) -> None:
        self.reason = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"
        self.called = called


class OperatorLine:
    """The way to one operator: its thread or process, its breaker, and a lock, as one thread at a time calls it."""

    def __init__(self, name: str, clock: Clock, isolated: IsolatedOperator | None = None) -> None:
        self.lock = threading.Lock()
        self.isolated = isolated
        self.runner = Runner(name)
        self.breaker = Breaker(name, clock, held=self._held)

    def _held(self) -> str | None:
        stuck = self.runner.stuck
        return f"{stuck} calls that were given up still hang" if stuck >= MOST_STUCK else None


class Prepared:
    """An invocation, ready: constants converted, and the attributes that are still to be read."""

    __slots__ = ("constants", "has_null", "operator", "places", "text")

    def __init__(self, invocation: Invocation, signature: Signature) -> None:
        arguments = invocation.arguments
        if len(arguments) != len(signature.parameters):
            raise OperatorError(
                f"{invocation}: operator {signature.name!r} takes {len(signature.parameters)} arguments"
            )
        self.operator = invocation.operator.lower()
        self.text = str(invocation)
        self.constants = [constant(a) if isinstance(a, Fixed) else None for a in arguments]
        self.places = [
            (a.path if isinstance(a, Given) else None, wanted)
            for a, wanted in zip(arguments, signature.parameters, strict=True)
        ]
        self.has_null = any(isinstance(a, Fixed) and a.value is None for a in arguments)


class Request:
    """An invocation for some rows: all of them, those that have no NULL among the arguments, and what came of it."""

    __slots__ = ("asked", "desk", "found", "given", "prepared", "rows", "seconds")

    def __init__(
        self,
        desk: "Desk",
        prepared: Prepared,
        given: list[tuple[int, ArgumentColumn]],
        rows: list[int],
        asked: list[int],
    ) -> None:
        self.desk, self.prepared, self.given, self.rows, self.asked = (
            desk,
            prepared,
            given,
            rows,
            asked,
        )
        self.found: list[Any] = []
        self.seconds = 0.0

    @property
    def called(self) -> int:
        return sum(1 for a in self.found if type(a) is not Failure or a.called)

    def answers(self) -> Answers:
        found = self.found
        if len(self.asked) < len(self.rows):
            found = _spread(found, self.asked, self.rows)
        return _gathered(self.desk.signature, found, self.called, self.seconds)


class Desk:
    """Where one operator is called, and its calls are counted."""

    def __init__(
        self, signature: Signature, function: Callable[..., Any], line: OperatorLine
    ) -> None:
        self.signature = signature
        self.line = line
        self._function = function
        self._check = checker(signature)
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
                one.found = self._in_chunks(one.prepared, one.given, one.asked)
                one.seconds = time.perf_counter() - began
        else:
            self._one_by_one([(one, row) for one in asked for row in one.asked])
        for one in asked:
            self._count(one)

    def _one_by_one(self, steps: list[tuple[Request, int]]) -> None:
        """Call the operator for each row; one hand-over to its thread is enough for all."""

        def step(i: int) -> Any:
            one, row = steps[i]
            began = time.perf_counter()
            found = self._one(one.prepared, one.given, row)
            spent[i] = time.perf_counter() - began
            return found

        if not steps:
            return
        spent = [self.signature.timeout or 0.0] * len(steps)  # of those that never come back
        found = self._run(step, self._tell, len(steps), lambda i: steps[i][0].prepared.text)
        for (one, _), answer, seconds in zip(steps, found, spent, strict=True):
            one.found.append(answer)
            one.seconds += 0.0 if type(answer) is Failure and not answer.called else seconds

    def _tell(self, answer: Any) -> None:
        if type(answer) is not Failure:
            self.line.breaker.record_success()
        elif answer.called:
            self.line.breaker.record_failure(answer.reason)

    def _one(self, prepared: Prepared, given: list[tuple[int, ArgumentColumn]], row: int) -> Any:
        refusal = self.line.breaker.refusal()
        if refusal is not None:
            return Failure(f"{prepared.text}: {refusal}", called=False)
        arguments = prepared.constants.copy()
        try:
            for place, column in given:
                arguments[place] = column.value(row)
            if self.line.isolated is not None:
                return self.line.isolated.call(arguments)
            return self._check(self._function(*arguments))
        # Whatever an operator raises is its failure, and mustn't end the batch or the thread.
        except BaseException as error:  # noqa: BLE001
            return Failure(f"{prepared.text}: {_told(error)}")

    def _run(self, step: Step, told: Told, steps: int, text: Callable[[int], str]) -> list[Any]:
        """The results of all steps: in this thread if nothing ends them, else in the runner's. `text`: what each is."""
        timeout = self.signature.timeout
        results: list[Any] = []
        if timeout is None or self.line.isolated is not None:
            for i in range(steps):
                results.append(step(i))
                told(results[-1])
            return results
        runner, breaker = self.line.runner, self.line.breaker
        results = runner.run(step, told, steps, timeout)
        while results[-1] is HUNG:
            hung = text(len(results) - 1)
            failure = Failure(f"{hung}: took longer than its time-out of {timeout:g} s")
            results[-1] = failure
            breaker.record_failure(failure.reason)
            if runner.stuck >= MOST_STUCK:
                breaker.open()
            done = len(results)
            if done == steps:
                break
            refusal = breaker.refusal()
            if refusal is not None and runner.stuck >= MOST_STUCK:
                return results + [
                    Failure(f"{text(i)}: {refusal}", called=False) for i in range(done, steps)
                ]
            results += runner.run(partial(_later, step, done), told, steps - done, timeout)
        return results

    # --- batch operators -----------------------------------------------------------------------

    def _in_chunks(
        self, prepared: Prepared, given: list[tuple[int, ArgumentColumn]], rows: list[int]
    ) -> list[Any]:
        found: list[Any] = []
        while len(found) < len(rows):
            chunk = rows[len(found) : len(found) + self._at_once()]
            found += self._halving(prepared, given, chunk)
        return found

    def _at_once(self) -> int:
        timeout = self.signature.timeout
        if timeout is None:
            return MOST_AT_ONCE
        return max(1, min(MOST_AT_ONCE, math.floor(timeout / (4 * max(self._row_cost, 1e-9)))))

    def _halving(
        self, prepared: Prepared, given: list[tuple[int, ArgumentColumn]], rows: list[int]
    ) -> list[Any]:
        breaker = self.line.breaker
        refusal = breaker.refusal()
        if refusal is not None:
            return [Failure(f"{prepared.text}: {refusal}", called=False)] * len(rows)
        self._calls += 1
        (found,) = self._run(
            lambda _: self._many(prepared, given, rows), lambda _: None, 1, lambda _: prepared.text
        )
        if isinstance(found, list):
            if all(type(answer) is Failure for answer in found):
                breaker.record_failure(found[-1].reason)
            else:
                breaker.record_success()
            return found
        if isinstance(found, _Raised) and len(rows) > 1:
            half = len(rows) // 2
            return [
                *self._halving(prepared, given, rows[:half]),
                *self._halving(prepared, given, rows[half:]),
            ]
        if isinstance(found, _Raised):
            found = found.failure
            breaker.record_failure(found.reason)
        return [found] * len(rows)

    def _many(
        self, prepared: Prepared, given: list[tuple[int, ArgumentColumn]], rows: list[int]
    ) -> "list[Any] | _Raised":
        arguments = prepared.constants.copy()
        try:
            for place, column in given:
                arguments[place] = column.values(rows)
            if self.line.isolated is not None:
                answers = self.line.isolated.call(arguments, len(rows))
            else:
                answers = elements(self._function(*arguments), self.signature, len(rows))
        # Whatever an operator raises is its failure, and mustn't end the batch or the thread.
        except BaseException as error:  # noqa: BLE001
            failure = Failure(f"{prepared.text}: {_told(error)}")
            # A shape that is wrong for many is wrong for few; and what took too long isn't tried again.
            final = isinstance(error, WrongAnswer | TookTooLong)
            return [failure] * len(rows) if final else _Raised(failure)
        return [self._checked(prepared, answer) for answer in answers]

    def _checked(self, prepared: Prepared, answer: Any) -> Any:
        if isinstance(answer, Refused):
            return Failure(f"{prepared.text}: {answer.reason}")
        if self.line.isolated is not None:  # it was checked over there
            return answer
        try:
            return self._check(answer)
        except BaseException as error:  # noqa: BLE001  (an answer may be a generator, which may raise anything)
            return Failure(f"{prepared.text}: {_told(error)}")


def _later(step: Step, done: int, i: int) -> Any:
    return step(done + i)


@dataclass(frozen=True, slots=True)
class _Raised:
    """A call for several events that raised: which of them it was for isn't known yet."""

    failure: Failure


def _told(error: BaseException) -> str:
    """An error in one line; an interrupt of this process is none, and goes on its way."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is _MAIN:
        raise error
    return error_text(error)


def _spread(answers: list[Any], asked: list[int], rows: list[int]) -> list[Any]:
    """Answers in the places of the rows that were asked; None for the others."""
    found, position = [], 0
    for row in rows:
        if position < len(asked) and asked[position] == row:
            found.append(answers[position])
            position += 1
        else:
            found.append(None)
    return found


def _gathered(signature: Signature, answers: list[Any], called: int, seconds: float) -> Answers:
    reasons = {i: a.reason for i, a in enumerate(answers) if type(a) is Failure}
    failed = np.zeros(len(answers), np.bool_)
    if reasons:
        failed[list(reasons)] = True
        answers = [None if type(a) is Failure else a for a in answers]
    return Answers(answers, signature.result, failed, reasons, called, seconds)
