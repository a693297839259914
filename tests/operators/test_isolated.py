"""Operators in a process of their own: whatever ends it, one event fails, and the others are answered."""

import gc
import logging
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators import hostile_operators as hostile
from tests.sizes import PATIENCE

from penstock.base.errors import OperatorError
from penstock.language.calls import Given, Invocation
from penstock.operators.answers import CallFailed
from penstock.operators.breaker import FAILURES
from penstock.operators.define import Operator, Operators, operator
from penstock.operators.invoke import Health, Invoker
from penstock.operators.isolated import IsolatedOperator


def answers(defined: Operator, numbers: list[int | None], health: Health | None = None) -> Any:
    known = Operators(defined)
    call = Invocation(defined.name, (Given(("x",)),))
    invoker = Invoker([call], known.signatures, known, health=health)
    batch = pa.record_batch([pa.array(numbers, pa.int64())], ["x"])
    return invoker.call(0, batch, np.arange(len(numbers), dtype=np.int32))


def test_a_call_that_ends_the_process_fails_alone(caplog: pytest.LogCaptureFixture):
    """By exit, by a crash, by raising: the calls before and after it are answered, and the log says what happened."""
    with caplog.at_level(logging.WARNING, "penstock.operators"):
        found = answers(hostile.isolated, [1, 13, 2, 17, None, 23, 3])
    assert found.values.to_pylist() == [2, None, 4, None, None, None, 6]
    assert found.reasons == {
        1: "isolated(x): its process ended: exit status 3",
        3: "isolated(x): its process ended: SIGSEGV",
        5: "isolated(x): ValueError: 23 is bad",
    }
    said = [record.getMessage() for record in caplog.records]
    assert "operator isolated: its process ended: SIGSEGV; the next call gets a new one" in said


def test_of_a_batch_the_event_that_ends_the_process_is_found():
    """By halves; an answer of the wrong type fails for its own event."""
    found = answers(hostile.isolated_batch, [1, 2, 13, 4, 29, 6, 7])
    assert found.values.to_pylist() == [2, 4, None, 8, None, 12, 14]
    assert found.reasons == {
        2: "isolated_batch(x): its process ended: exit status 3",
        4: "isolated_batch(x): answered str 'twenty-nine', not integer",
    }


def test_a_call_that_hangs_is_ended():
    """Together with its process: no thread waits for it."""
    health = Health()
    found = answers(hostile.isolated_briefly, [19], health)
    assert found.reasons == {0: "isolated_briefly(x): took longer than its time-out of 0.5 s"}
    line = health.line(hostile.isolated_briefly.signature, True)
    assert line.isolated._child is None  # type: ignore[union-attr]
    assert line.runner.stuck == 0


def test_a_process_that_stops_in_the_middle_of_an_answer_is_ended():
    """What is there of the answer doesn't make its caller wait for the rest."""
    found = answers(hostile.isolated_briefly, [1, 31, 2])
    assert found.values.to_pylist() == [2, None, 4]
    assert found.reasons == {1: "isolated_briefly(x): took longer than its time-out of 0.5 s"}


def test_an_operator_whose_process_keeps_ending_isnt_called_any_more(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each end is a failure of a call: after some in a row the circuit opens, for a while."""

    def end(self: IsolatedOperator) -> None:
        raise CallFailed("its process ended: SIGKILL")

    monkeypatch.setattr(IsolatedOperator, "_start", end)
    found = answers(hostile.isolated, [1] * (FAILURES + 2), Health(lambda: 0.0))
    assert found.called == FAILURES
    assert found.reasons[0] == "isolated(x): its process ended: SIGKILL"
    assert "circuit open" in found.reasons[FAILURES]


def test_answers_that_cannot_travel_are_checked_over_there():
    found = answers(hostile.isolated_pairs, [1, 2])
    assert found.bindings == [{(1, date(1999, 1, 2))}, {(2, date(1999, 1, 3))}]


def test_the_process_ends_with_its_operator():
    health = Health()
    answers(hostile.isolated, [1], health)
    isolated = health.line(hostile.isolated.signature, True).isolated
    process = isolated._child._process  # type: ignore[union-attr]
    assert process.pid != os.getpid()
    assert process.poll() is None
    del health, isolated
    gc.collect()
    assert process.poll() is not None


def test_the_process_ends_with_its_owner_even_in_a_call_that_never_returns():
    """A worker that is killed can't end it: it sees that nobody sends anything any more."""
    code = (
        "from tests.operators import hostile_operators as hostile\n"
        "from penstock.operators.isolated import IsolatedOperator\n"
        "import os, threading\n"
        "one = IsolatedOperator(hostile.isolated.signature)\n"
        "one.call([1])\n"
        "threading.Thread(target=one.call, args=([19],), daemon=True).start()\n"
        "print(one._child._process.pid, flush=True)\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 9
    process = int(done.stdout.splitlines()[-1])
    deadline = time.monotonic() + PATIENCE
    while _is_alive(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(process: int) -> bool:
    """Whether a process runs that isn't a child of this one."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_an_operator_that_no_other_process_can_import_isnt_isolated():
    with pytest.raises(OperatorError, match="'local' is to be isolated, but it is a lambda"):
        operator("local", isolate=True, result="int")(lambda x: x)


def test_all_operators_of_a_list_can_be_isolated():
    """As in a micro-batch that is tried again after a worker has died."""
    (deadly,) = Operators.from_signatures(Operators(hostile.deadly).signatures, isolate=True)
    assert answers(deadly, [1, 13, 2]).values.to_pylist() == [2, None, 4]
