"""Calling operators: arguments, answers, failures, time-outs, threads."""

import asyncio
import gc
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.conftest import Clock
from tests.sizes import PATIENCE

from penstock.base.errors import OperatorError
from penstock.language.calls import Fixed, Given, Invocation
from penstock.language.types import Kind, Scalar
from penstock.operators.answers import MOST_BINDINGS, Answers
from penstock.operators.breaker import FAILURES
from penstock.operators.define import Operator, Operators, operator
from penstock.operators.desk import MOST_STUCK
from penstock.operators.invoke import Health, Invoker
from penstock.operators.watched_calls import Runner

X = Given(("x",))


def invoker(defined: Operator, *arguments: Given | Fixed, **options: Any) -> Invoker:
    known = Operators(defined)
    return Invoker([Invocation(defined.name, arguments)], known.signatures, known, **options)


def call(
    defined: Operator, column: Any, *more: Given | Fixed, of: Invoker | None = None
) -> Answers:
    """Ask an operator of one attribute x about all rows of a column."""
    batch = pa.RecordBatch.from_arrays([pa.array(column)], ["x"])
    rows = np.arange(batch.num_rows, dtype=np.int32)
    return (of or invoker(defined, X, *more)).call(0, batch, rows)


def remembering(result: str = "bigint", answer: Any = 1, **options: Any) -> tuple[Operator, list]:
    """An operator that keeps what it was given."""
    seen: list[Any] = []

    def function(x: Any) -> Any:
        seen.append(x)
        return answer

    return operator("f", result=result, **options)(function), seen


# --- arguments ---------------------------------------------------------------------------------

NOON = datetime(2007, 6, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "wanted", "given"),
    [
        (pa.array([b"\x00\xff"]), "binary", b"\x00\xff"),
        (pa.array([{"lat": 1.5, "lon": None}]), None, {"lat": 1.5, "lon": None}),
        (pa.array([[1, 2]]), "array<int>", [1, 2]),
        (pa.array([7], pa.int8()), "int", 7),
        (pa.array([7], pa.int32()), "double", 7.0),
        (pa.array([7.0]), "int", 7),
        (pa.array([Decimal("7.50")]), "double", 7.5),
        (pa.array([2.5]), "decimal(5,2)", Decimal("2.5")),
        (pa.array([7]), "decimal(5,2)", Decimal(7)),
        (pa.array(["a"]).dictionary_encode(), "string", "a"),
        (pa.array(["a"], pa.large_string()), "string", "a"),
        (pa.array([date(2007, 6, 20)]), "date", date(2007, 6, 20)),
        (pa.array([date(2007, 6, 20)]), "timestamp", datetime(2007, 6, 20, tzinfo=UTC)),
        (pa.array([NOON.replace(tzinfo=None)]), "timestamp", NOON),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ns")), "timestamp", NOON),
        (pa.array([NOON], pa.timestamp("ms", "America/New_York")), "timestamp", NOON),
        (pa.array([NOON], pa.timestamp("us", "UTC")), "date", date(2007, 6, 20)),
    ],
)
def test_attributes_arrive_as_the_declared_types(column: pa.Array, wanted: Any, given: Any):
    """Structs as dicts, binary as bytes, moments in UTC, numbers as the operator wants them."""
    f, seen = remembering(arguments=(wanted,))
    assert not call(f, column).failed.any()
    assert seen == [given]
    assert type(seen[0]) is type(given)


@pytest.mark.parametrize(
    ("column", "wanted", "array"),
    [
        (pa.array([7], pa.int8()), "int", pa.array([7])),
        (pa.array([7]), "double", pa.array([7.0])),
        (pa.array(["a"]).dictionary_encode(), "string", pa.array(["a"])),
        (pa.array([NOON.replace(tzinfo=None)]), "timestamp", pa.array([NOON], pa.timestamp("us", "UTC"))),
        (pa.array([{"lat": 1.5}]), None, pa.array([{"lat": 1.5}])),
    ],
)  # fmt: skip
def test_a_batch_operator_gets_arrays_of_the_declared_types(column: Any, wanted: Any, array: Any):
    """Whatever width or encoding the batch has."""
    f, seen = remembering(answer=[1], arguments=(wanted,), batch=True)
    assert call(f, column).values.to_pylist() == [1]
    assert seen == [array]


def test_literals_arrive_as_python_values():
    """Converted once, for all events."""
    fixed = [
        Fixed(Scalar(Kind.INTEGER), 3),
        Fixed(Scalar(Kind.DOUBLE), 3.0),
        Fixed(Scalar(Kind.STRING), "it's"),
        Fixed(Scalar(Kind.BOOLEAN), True),
        Fixed(Scalar(Kind.DECIMAL, 3, 2), "1.50"),
        Fixed(Scalar(Kind.DATE), "2007-06-20"),
        Fixed(Scalar(Kind.TIMESTAMP), "2007-06-20T12:00:00"),
        Fixed(Scalar(Kind.TIMESTAMP), "2007-06-20 12:00:00+00:00"),
    ]
    seen: list[Any] = []
    f = operator("f", arguments=[None] * 9, result="boolean")(lambda *a: bool(seen.append(a)))
    call(f, [0], *fixed)
    assert seen == [(0, 3, 3.0, "it's", True, Decimal("1.50"), date(2007, 6, 20), NOON, NOON)]


def test_an_attribute_is_reached_by_its_path():
    """Through structs; what the events don't have is NULL."""
    f, seen = remembering(arguments=("double",))
    batch = pa.RecordBatch.from_pylist([{"at": {"lat": 1.5}}, {"at": None}])
    known = Operators(f)
    calls = [Invocation("F", (Given(path),)) for path in (("at", "lat"), ("at", "lon"), ("no",))]
    asked = Invoker(calls, known.signatures, known)
    found = [
        asked.call(n, batch, np.arange(2, dtype=np.int32)).values.to_pylist() for n in range(3)
    ]
    assert found == [[1, None], [None, None], [None, None]]
    assert seen == [1.5]


@pytest.mark.parametrize("batch", [False, True])
def test_an_operator_isnt_called_where_an_argument_is_null(batch: bool):
    """As any function in SQL: the answer is unknown, and nothing has failed."""
    f = operator("f", arguments=("int",), result="int", batch=batch)(lambda x: x)
    found = call(f, [1, None, 3])
    assert found.values.to_pylist() == [1, None, 3]
    assert (found.failed.tolist(), found.called) == ([False] * 3, 2)
    g = operator("g", arguments=("int",), binds=("int",), batch=batch)(
        lambda x: [[1]] if batch else [1]
    )
    assert call(g, [None, 1]).bindings == [None, frozenset({(1,)})]
    null = operator("h", arguments=("int", "int"), result="int")(lambda x, y: x)
    assert call(null, [1], Fixed(None, None)).values.to_pylist() == [None]


def test_a_number_that_doesnt_convert_fails_its_event():
    """2.5 is no integer; the events beside it are none the worse."""
    f, seen = remembering(arguments=("int",))
    found = call(f, [1.0, 2.5, 3.0])
    assert found.reasons == {1: "f(x): ValueError: 2.5 is given where an integer is wanted"}
    assert seen == [1, 3]


def test_rows_are_picked_from_the_batch():
    """In the order asked for."""
    f = operator("f", arguments=("int",), result="int")(lambda x: 10 * x)
    batch = pa.RecordBatch.from_pydict({"x": range(10)})
    found = invoker(f, X).call(0, batch, np.array([7, 2, 5], np.int32))
    assert found.values.to_pylist() == [70, 20, 50]


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "answer", "value"),
    [
        ("boolean", True, True),
        ("boolean", np.True_, True),
        ("bigint", 5, 5),
        ("bigint", np.int32(5), 5),
        ("double", 5, 5.0),
        ("double", np.float32(0.5), 0.5),
        ("decimal(5,2)", 5, Decimal("5.00")),
        ("decimal(5,2)", Decimal("1.500"), Decimal("1.50")),
        ("string", "ü", "ü"),
        ("date", date(2007, 6, 20), date(2007, 6, 20)),
        ("timestamp", NOON, NOON),
        ("timestamp", NOON.replace(tzinfo=None), NOON),
        ("bigint", None, None),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_answers_of_the_declared_type_are_taken(result: str, answer: Any, value: Any, batch: bool):
    """None is NULL, and what loses nothing is converted."""
    f, _ = remembering(result, [answer] if batch else answer, batch=batch)
    found = call(f, [0])
    assert (found.values.to_pylist(), found.reasons) == ([value], {})


@pytest.mark.parametrize(
    ("result", "answer", "reason"),
    [
        ("boolean", 1, "answered int 1, not boolean"),
        ("bigint", True, "answered bool True, not integer"),
        ("bigint", 5.0, "answered float 5.0, not integer"),
        ("bigint", 2**63, "more than 64 bits"),
        ("double", "5", "answered str '5', not double"),
        ("double", True, "not double"),
        ("double", 10**400, "no double can hold"),
        ("double", Decimal(5), "not double"),
        ("decimal(5,2)", Decimal("0.005"), "doesn't fit decimal(5,2): round it"),
        ("decimal(5,2)", 1000, "doesn't fit"),
        ("decimal(5,2)", Decimal("NaN"), "no decimal column can hold"),
        ("decimal(5,2)", 5.0, "not decimal(5,2)"),
        ("string", b"a", "not string"),
        ("string", "\ud800", "isn't Unicode"),
        ("string", "a" * 1_000_001, "1,000,000 at most"),
        ("date", NOON, "not date"),
        ("timestamp", date(2007, 6, 20), "not timestamp"),
        ("timestamp", "2007-06-20", "not timestamp"),
        ("bigint", [5], "answered list [5], not integer"),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_an_answer_of_another_type_fails(result: str, answer: Any, reason: str, batch: bool):
    """The reason says what was answered and what was declared."""
    f, _ = remembering(result, [answer] if batch else answer, batch=batch)
    found = call(f, [0])
    assert found.values.to_pylist() == [None]
    assert found.failed.tolist() == [True]
    assert reason in found.reasons[0]


@pytest.mark.parametrize(
    ("answer", "bound"),
    [
        ({("car", 2), ("boat", 1)}, {("car", 2), ("boat", 1)}),
        ([["car", 2], ("car", 2)], {("car", 2)}),
        ((x for x in [("car", None)]), {("car", None)}),
        ((), set()),
    ],
)
def test_bindings_are_any_collection_of_tuples(answer: Any, bound: set):
    """Each once; a value may be NULL."""
    f = operator("f", arguments=(None,), binds=("string", "int"))(lambda x: answer)
    assert call(f, [0]).bindings == [frozenset(bound)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "answer an empty set for nothing"),
        ("car", "answered str 'car', not a set of 2-tuples"),
        ({"car": 2}, "not a set of 2-tuples"),
        ([("car",)], "among its bindings"),
        ([("car", "2")], "answered str '2', not integer"),
        ([("car", n) for n in range(MOST_BINDINGS + 1)], "more than 10,000 bindings"),
        (iter(lambda: ("car", 2), None), "more than 10,000 bindings"),
    ],
)
def test_bindings_of_another_shape_fail(answer: Any, reason: str):
    """Endless ones, too."""
    f = operator("f", arguments=(None,), binds=("string", "int"))(lambda x: answer)
    found = call(f, [0])
    assert (found.bindings, found.failed.tolist()) == ([None], [True])
    assert reason in found.reasons[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([1, 2], "answered 2 values for 3 events"),
        (5, "answered int 5, not a sequence"),
        ("abc", "not a sequence"),
        (iter(int, 1), "answered 4 values for 3 events"),
        (pa.array(["a", "b", "c"]), "answered an array of string, not of integer"),
        (np.zeros((3, 1)), "2 dimensions"),
        (np.zeros(3), "answered float 0.0, not integer"),
    ],
)
def test_a_batch_answer_of_another_shape_fails_all_its_events(answer: Any, reason: str):
    """There is no telling which answer is whose."""
    f, _ = remembering(answer=answer, batch=True)
    found = call(f, [1, 2, 3])
    assert found.failed.all()
    assert all(reason in found.reasons[i] for i in range(3))


@pytest.mark.parametrize(
    "answer",
    [
        [1, 2, None],
        (1, 2, None),
        pa.array([1, 2, None], pa.int16()),
        pa.chunked_array([[1], [2, None]]),
        iter([1, 2, None]),
        np.array([1, 2, None], object),
    ],
)
def test_a_batch_answers_with_any_sequence(answer: Any):
    """Arrow, NumPy, Python."""
    f, _ = remembering(answer=answer, batch=True)
    assert call(f, [1, 2, 3]).values.to_pylist() == [1, 2, None]


# --- failures ----------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=40), st.booleans(), st.sampled_from([None, "10 s"]))
@settings(deadline=None, max_examples=60)
def test_an_event_fails_alone(poisoned: list[bool], batch: bool, timeout: str | None):
    """Unless so many fail in a row that the circuit opens: then all after them fail as well."""

    def one(x: int) -> int:
        if x < 0:
            raise ValueError(f"poison {x}")
        return x

    def many(xs: pa.Array) -> list[int]:
        return [one(x) for x in xs.to_pylist()]

    f = operator("f", arguments=("int",), result="int", timeout=timeout, batch=batch)(
        many if batch else one
    )
    column = pa.array([-n - 1 if p else n for n, p in enumerate(poisoned)], pa.int64())
    found = call(f, column)
    text = "".join("x" if p else "." for p in poisoned)
    good = text.find("x" * FAILURES)
    past = len(text) if good < 0 else good + FAILURES
    assert found.failed.tolist() == [p or n >= past for n, p in enumerate(poisoned)]
    for n, p in enumerate(poisoned[:past]):
        if p:
            assert found.reasons[n] == f"f(x): ValueError: poison {-n - 1}"
    assert all("circuit open since" in found.reasons[n] for n in range(past, len(text)))
    assert [v for v in found.values.to_pylist() if v is not None] == [
        n for n, p in enumerate(poisoned[:past]) if not p
    ]


def test_one_poisoned_event_costs_a_batch_operator_a_few_calls():
    """Its batch is halved until the event is alone: about 2 log2 n calls, instead of n."""
    sizes: list[int] = []

    def f(xs: pa.Array) -> list[int]:
        sizes.append(len(xs))
        if 77 in xs.to_pylist():
            raise ValueError("poison")
        return xs.to_pylist()

    f = operator("f", arguments=("int",), result="int", timeout=None, batch=True)(f)
    asked = invoker(f, X)
    found = call(f, range(1000), of=asked)
    assert list(found.reasons) == [77]
    assert len(sizes) <= 2 * 10 + 1
    assert asked.stats()["f"].calls == len(sizes)


def test_a_reason_is_bounded_and_never_fails_itself():
    """Messages of any length, errors that can't be told, and sys.exit."""

    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    errors = iter([ValueError("x" * 10_000), Odd(), SystemExit(3), KeyError()])

    def f(x: int) -> int:
        raise next(errors)

    found = call(operator("f", timeout=None)(f), [1, 2, 3, 4])
    assert len(found.reasons[0]) < 400
    assert "Odd" in found.reasons[1]
    assert found.reasons[2] == "f(x): SystemExit: 3"
    assert found.reasons[3] == "f(x): KeyError"


def test_the_circuit_opens_and_closes_again():
    """While it is open the operator isn't called; a trial that succeeds closes it."""
    now = [0.0]
    healthy = [False]
    calls: list[int] = []

    def f(x: int) -> int:
        calls.append(x)
        if not healthy[0]:
            raise ConnectionError("down")
        return x

    defined = operator("f")(f)
    asked = invoker(defined, X, health=Health(lambda: now[0]))
    found = call(defined, range(20), of=asked)
    assert len(calls) == FAILURES
    assert found.called == FAILURES
    assert found.failed.all()
    assert re.search(
        r"circuit open since 2\d{3}-.*Z, after: f\(x\): ConnectionError: down", found.reasons[19]
    )
    assert asked.stats()["f"].breaker == "open"
    now[0], healthy[0] = 1.0, True
    assert not call(defined, range(20), of=asked).failed.any()
    assert asked.stats()["f"].breaker == "closed"


class Unusual(BaseException):
    """What libraries raise past everybody who catches exceptions."""

    def __str__(self) -> str:
        raise GeneratorExit


@pytest.mark.parametrize("timeout", ["10 s", None])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "raised", [asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt, Unusual]
)
def test_whatever_an_operator_raises_is_a_failure_of_its_event(
    raised: type[BaseException], batch: bool, timeout: str | None
):
    """No thread dies of it, none counts as hung, and the operator is called again after a pause."""
    if raised is KeyboardInterrupt and timeout is None:
        return  # in this very thread it may be the user's
    now = [0.0]
    healthy = [False]

    def f(x: Any) -> Any:
        if not healthy[0]:
            raise raised
        return x

    defined = operator("f", timeout=timeout, batch=batch, result="bigint", arguments=("bigint",))(f)
    health = Health(lambda: now[0])
    asked = invoker(defined, X, health=health)
    for _ in range(8):
        found = call(defined, range(3), of=asked)
        assert found.failed.all()
        now[0] += 100
    assert raised.__name__ in found.reasons[0]
    assert health.line(defined.signature).runner.stuck == 0
    healthy[0] = True
    assert not call(defined, range(3), of=asked).failed.any()


def test_an_interrupt_of_the_process_is_no_failure_of_an_operator():
    def f(x: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(operator("f", timeout=None)(f), range(3))


def test_what_a_step_raises_is_raised_where_it_is_waited_for():
    """It isn't taken for a call that hangs."""
    runner = Runner("f")
    for _ in range(2):
        with pytest.raises(GeneratorExit):
            runner.run(lambda row: row, _raise_generator_exit, 3, PATIENCE)
    assert runner.stuck == 0


def _raise_generator_exit(_: Any) -> None:
    raise GeneratorExit


def test_what_is_known_of_an_operators_health_outlives_an_invoker():
    """A new plan doesn't start calling a service that is down."""
    health = Health(lambda: 0.0)

    def f(x: int) -> int:
        calls.append(x)
        raise ConnectionError

    calls: list[int] = []
    defined = operator("f")(f)
    call(defined, range(10), of=invoker(defined, X, health=health))
    call(defined, range(10), of=invoker(defined, X, health=health))
    assert len(calls) == FAILURES


def test_what_isnt_registered_is_refused():
    """When the invoker is made, not at the first event."""
    f, _ = remembering()
    with pytest.raises(OperatorError, match="'g' isn't registered"):
        Invoker([Invocation("g", ())], Operators(f).signatures, Operators(f))
    with pytest.raises(OperatorError, match="takes 1 arguments"):
        invoker(f, X, X)


def test_stats_count_calls_rows_and_failures():
    """Rows are the events asked about, calls those the function saw."""

    def f(x: int) -> int:
        if x == 3:
            raise ValueError
        return x

    defined = operator("f")(f)
    asked = invoker(defined, X)
    call(defined, [1, 2, None, 3], of=asked)
    stats = asked.stats()["f"]
    assert (stats.calls, stats.rows, stats.failures, stats.breaker) == (3, 4, 1, "closed")
    assert stats.seconds > 0


# --- time-outs ---------------------------------------------------------------------------------


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging calls wait for; opened at the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """An operator that hangs at some values until the gate opens: the clock says that it takes too long."""

    def __init__(
        self,
        clock: Clock,
        gate: threading.Event,
        hangs: Callable[[int], bool],
        timeout: str = "50 ms",
    ) -> None:
        self.seen: list[int] = []
        self.threads: list[threading.Thread] = []

        def f(x: int) -> int:
            self.seen.append(x)
            if hangs(x):
                self.threads.append(threading.current_thread())
                clock.now += 1
                gate.wait()
            return x

        self.operator = operator("f", timeout=timeout)(f)

    def join(self) -> None:
        """Wait until the calls that hung have returned, and their threads with them."""
        for thread in self.threads:
            thread.join()


def test_a_call_that_hangs_fails_its_event_and_no_other(clock: Clock, gate: threading.Event):
    """The rest goes on in a new thread; each event is called once."""
    defined = Hanging(clock, gate, lambda x: x in (2, 5), "150 ms")
    found = call(defined.operator, range(8))
    assert found.values.to_pylist() == [0, 1, None, 3, 4, None, 6, 7]
    assert found.reasons[2] == "f(x): took longer than its time-out of 0.15 s"
    assert defined.seen == list(range(8))


def test_slow_is_not_hanging(clock: Clock):
    """A time-out is for one event, however long all of them take together."""

    def f(x: int) -> int:
        clock.now += 0.03
        if x == 19:  # 0.6 s for all: the caller looks, and goes on waiting
            clock.looked.clear()
            clock.looked.wait()
        return x

    assert not call(operator("f", timeout="50 ms")(f), range(20)).failed.any()


def test_an_answer_that_never_ends_is_given_up(clock: Clock, gate: threading.Event):
    """A generator runs while its answer is read: that counts, too."""

    def f(x: int) -> Any:
        yield 1
        clock.now += 1
        gate.wait()

    found = call(operator("f", timeout="100 ms", binds=("int",))(f), [0])
    assert "time-out" in found.reasons[0]


def test_a_batch_call_that_hangs_fails_its_events(clock: Clock, gate: threading.Event):
    """They aren't tried again: that would cost another time-out."""
    calls: list[int] = []

    def f(xs: pa.Array) -> list[int]:
        calls.append(len(xs))
        clock.now += 1
        gate.wait()
        return xs.to_pylist()

    f = operator("f", arguments=("int",), result="int", timeout="100 ms", cost="1 ms", batch=True)(
        f
    )
    found = call(f, range(25))
    assert found.failed.all()
    assert calls == [25]


def test_a_batch_is_no_larger_than_the_time_out_allows():
    """A quarter of it, by what calls are expected to take."""
    sizes: list[int] = []

    def f(xs: pa.Array) -> list[int]:
        sizes.append(len(xs))
        return xs.to_pylist()

    f = operator("f", arguments=("int",), result="int", timeout="400 ms", cost="10 ms", batch=True)(
        f
    )
    assert not call(f, range(30)).failed.any()
    assert sizes[0] == 10
    assert sum(sizes) == 30


def test_hanging_threads_are_bounded(clock: Clock, gate: threading.Event):
    """Then the circuit stays open, however long, until one of them returns."""
    now = [0.0]
    defined = Hanging(clock, gate, lambda x: x % 2 == 0)
    asked = invoker(defined.operator, X, health=Health(lambda: now[0]))
    gc.collect()
    before = threads_of("f")
    found = call(defined.operator, range(40), of=asked)
    assert threads_of("f") - before <= MOST_STUCK
    assert defined.seen == list(range(2 * MOST_STUCK - 1))
    assert found.failed.sum() == 40 - (MOST_STUCK - 1)
    now[0] = 1e6
    reasons = call(defined.operator, [1], of=asked).reasons
    assert "4 calls that were given up still hang" in reasons[0]
    assert asked.stats()["f"].breaker == "open"
    gate.set()
    defined.join()
    assert asked.stats()["f"].breaker != "open"
    assert not call(defined.operator, [1, 3], of=asked).failed.any()


def test_a_late_answer_is_nobodys(clock: Clock, gate: threading.Event):
    """A call that returns after it was given up answers for no event, and its thread calls nothing more."""
    defined = Hanging(clock, gate, lambda x: x == 0)
    asked = invoker(defined.operator, X)
    assert call(defined.operator, range(4), of=asked).values.to_pylist() == [None, 1, 2, 3]
    gate.set()
    defined.join()
    assert call(defined.operator, [4, 5], of=asked).values.to_pylist() == [4, 5]
    assert defined.seen == list(range(6))


def test_without_a_time_out_there_is_no_thread():
    """The operator runs where it is called."""
    f = operator("f", arguments=("int",), result="bigint", timeout=None)(
        lambda x: threading.get_ident()
    )
    g = operator("f", arguments=("int",), result="bigint", timeout="10 s")(
        lambda x: threading.get_ident()
    )
    assert call(f, [1]).values[0].as_py() == threading.get_ident()
    assert call(g, [1]).values[0].as_py() != threading.get_ident()


def threads_of(name: str) -> int:
    return sum(thread.name == f"penstock-{name}" for thread in threading.enumerate())


def test_threads_end_with_their_invoker():
    """Nobody has to close anything."""
    lonely = operator("lonely", arguments=("int",), result="int")(lambda x: x)
    asked = invoker(lonely, X)
    call(lonely, [1], of=asked)
    (thread,) = [t for t in threading.enumerate() if t.name == "penstock-lonely"]
    del asked
    gc.collect()
    thread.join()
    assert threads_of("lonely") == 0


@pytest.mark.parametrize("timeout", [None, "10 s"])
def test_operators_are_called_by_one_thread_at_a_time(timeout: str | None):
    """However many threads match: authors needn't think of locks."""
    inside = [0, 0]

    def f(x: int) -> int:
        inside[0] += 1
        inside[1] = max(inside)
        time.sleep(0.001)
        inside[0] -= 1
        return x

    defined = operator("f", timeout=timeout)(f)
    asked = invoker(defined, X)
    found: list[list[int]] = []
    threads = [
        threading.Thread(
            target=lambda n=n: found.append(call(defined, [n] * 10, of=asked).values.to_pylist())
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[n] * 10 for n in range(4)]
    assert inside[1] == 1


def test_an_invoker_survives_a_fork():
    """A thread of the parent isn't there in the child, which starts its own."""
    f = operator("f", arguments=("int",), result="int")(lambda x: x + 1)
    asked = invoker(f, X)
    assert call(f, [1], of=asked).values.to_pylist() == [2]
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=lambda: results.put(call(f, [1], of=asked).values.to_pylist()))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert results.get() == [2]
