"""The answers of operators, checked strictly against the types that the operator declared.

A wrong type is a defect of the operator that no conversion should hide: `True` isn't a number, `1` isn't a text. Only
conversions that lose nothing are made: of an integer where a double or a decimal is declared, of NumPy's scalars, and
of a moment without a zone, which is taken for UTC. None is NULL. The answer of an operator that binds is never None: if
nothing is bound, it is an empty set.
"""

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools
from penstock.language.signatures import Signature
from penstock.language.types import Kind, Scalar, arrow_type, from_arrow
from penstock.operators.arguments import in_utc

MOST_BINDINGS = 10_000  # of one answer
LONGEST_TEXT = 1_000_000  # characters of one value
_SHOWN = 60
_EXACT = Context(prec=1000)
_MAIN = threading.main_thread()

BoundTuple = tuple[Any, ...]
Bindings = frozenset[BoundTuple]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one invocation, one per row that was asked about.

    `found` are values if the operator has a `result`, else the tuples it bound. None is unknown: the operator answered
    None, it wasn't called because an argument is NULL, or it failed; `reasons` has the failures by position in the
    rows. The operator was really called for `called` rows, which took `seconds`.
    """

    found: list[Any]
    result: Scalar | None
    failed: Bools
    reasons: dict[int, str]
    called: int
    seconds: float

    @property
    def values(self) -> pa.Array | None:
        """The answers as an Arrow array; None if the operator binds."""
        if self.result is None:
            return None
        return pa.array(self.found, arrow_type(self.result), from_pandas=False)

    @property
    def bindings(self) -> list[Bindings | None] | None:
        """The tuples that the operator bound for each row; None if it answers values."""
        return self.found if self.result is None else None


class WrongAnswer(Exception):
    """An answer that isn't of the declared type."""


class CallFailed(Exception):
    """A call in another process that failed: the text says all."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Stands in the place of an answer and says why there is none. `called`: whether the operator was called at all."""

    reason: str
    called: bool = True


def failure_text(error: BaseException) -> str:
    """Why a call failed, in one line. An interrupt of this process isn't a failure: it is raised again."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is _MAIN:
        raise error
    return error_text(error)


def error_text(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  (an error of an operator's own may raise anything here)
        text = "(an error without a text)"
    if isinstance(error, WrongAnswer | CallFailed):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def answering(
    signature: Signature, function: Callable[..., Any]
) -> Callable[[list[Any], int], Any]:
    """A function that calls an operator with arguments, for so many events, and gives the checked answer.

    For a batch operator the answer is a list with the answer, or the failure, of each event.
    """
    check = checker(signature)
    if not signature.batch:
        return lambda arguments, events: check(function(*arguments))

    def one(answer: Any) -> Any:
        try:
            return check(answer)
        except BaseException as error:  # noqa: BLE001  (an answer may be a generator, which may raise anything)
            return Failure(failure_text(error))

    def many(arguments: list[Any], events: int) -> list[Any]:
        return [one(answer) for answer in elements(function(*arguments), signature, events)]

    return many


def checker(signature: Signature) -> Callable[[Any], Any]:
    """A function that gives an answer in its canonical form, or raises `WrongAnswer`.

    >>> from penstock.operators.define import operator
    >>> check = checker(operator("f", arguments=(), binds=("string", "int"))(lambda: ()).signature)
    >>> check([("car", 2), ["car", 2]])
    frozenset({('car', 2)})
    """
    if signature.result is None:
        return _bindings_of(tuple(map(_value_of, signature.binds)))
    value = _value_of(signature.result)
    return lambda answer: None if answer is None else value(answer)


def elements(answer: Any, signature: Signature, count: int) -> Sequence[Any]:
    """The answers of a batch operator, one per event, still to be checked; `WrongAnswer` if there are more or fewer."""
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    if isinstance(answer, pa.Array):
        if pa.types.is_dictionary(answer.type):
            answer = answer.dictionary_decode()
        found = _shape(answer, count)
        wanted = signature.result
        if wanted is not None and not _same_kind(from_arrow(found.type), wanted):
            raise WrongAnswer(f"answered an array of {found.type}, not of {wanted}")
        if pa.types.is_timestamp(found.type):
            found = found.cast(pa.timestamp("us", found.type.tz), safe=False)
        return list(found.to_pylist())
    if isinstance(answer, np.ndarray):
        if answer.ndim != 1:
            raise WrongAnswer(f"answered an array of {answer.ndim} dimensions")
        return list(_shape(answer, count).tolist())
    if isinstance(answer, str | bytes | dict | set | frozenset) or not isinstance(answer, Iterable):
        raise WrongAnswer(f"answered {_kind(answer)}, not a sequence with one element per event")
    found_list: list[Any] = _shape(list(itertools.islice(answer, count + 1)), count)
    return found_list


def _shape(answer: Any, count: int) -> Any:
    if len(answer) != count:
        raise WrongAnswer(f"answered {len(answer)} values for {count} events")
    return answer


def _same_kind(found: Any, wanted: Scalar) -> bool:
    if not isinstance(found, Scalar):
        return False
    widened = {Kind.DOUBLE: {Kind.INTEGER}, Kind.DECIMAL: {Kind.INTEGER}}
    return found.kind is wanted.kind or found.kind in widened.get(wanted.kind, ())


def _kind(answer: Any) -> str:
    try:
        text = repr(answer)
    except Exception:  # noqa: BLE001  (an operator's own class may raise anything here)
        text = ""
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return f"{type(answer).__name__} {text}".rstrip()


# --- values ------------------------------------------------------------------------------------


def _value_of(declared: Scalar) -> Callable[[Any], Any]:
    read = _READERS[declared.kind]

    def check(answer: Any) -> Any:
        found = read(answer)
        if found is None:
            raise WrongAnswer(f"answered {_kind(answer)}, not {declared}")
        return found

    if declared.kind is not Kind.DECIMAL:
        return check

    def check_decimal(answer: Any) -> Decimal:
        found: Decimal = check(answer)
        decimals = -int(found.as_tuple().exponent)
        if decimals > declared.scale:  # 1.500 has three, but needs one
            decimals = -int(found.normalize(_EXACT).as_tuple().exponent)
        if decimals > declared.scale or found.adjusted() >= declared.precision - declared.scale:
            raise WrongAnswer(f"answered {_kind(answer)}, which doesn't fit {declared}: round it")
        return found

    return check_decimal


def _boolean(answer: Any) -> bool | None:
    return bool(answer) if isinstance(answer, bool | np.bool_) else None


def _integer(answer: Any) -> int | None:
    if isinstance(answer, bool | np.bool_) or not isinstance(answer, int | np.integer):
        return None
    if not -(2**63) <= answer < 2**63:
        raise WrongAnswer("answered an integer of more than 64 bits")
    return int(answer)


def _double(answer: Any) -> float | None:
    if isinstance(answer, bool | np.bool_):
        return None
    if not isinstance(answer, int | float | np.integer | np.floating):
        return None
    try:
        found = float(answer)
    except OverflowError:
        raise WrongAnswer("answered an integer that no double can hold") from None
    return math.nan if found != found else found  # one NaN for all: as a key it equals itself


def _decimal(answer: Any) -> Decimal | None:
    if isinstance(answer, int | np.integer) and not isinstance(answer, bool):
        return Decimal(int(answer))
    if not isinstance(answer, Decimal):
        return None
    if not answer.is_finite():
        raise WrongAnswer(f"answered {answer}, which no decimal column can hold")
    return answer


def _string(answer: Any) -> str | None:
    if not isinstance(answer, str):
        return None
    if len(answer) > LONGEST_TEXT:
        raise WrongAnswer(
            f"answered a text of {len(answer):,} characters: {LONGEST_TEXT:,} at most"
        )
    if not answer.isascii():
        try:
            answer.encode()
        except UnicodeEncodeError:
            raise WrongAnswer(
                "answered a text that isn't Unicode: it has a lone surrogate"
            ) from None
    return str(answer)


def _date(answer: Any) -> date | None:
    return answer if isinstance(answer, date) and not isinstance(answer, datetime) else None


def _timestamp(answer: Any) -> datetime | None:
    if not isinstance(answer, datetime):
        return None
    try:
        return in_utc(answer)
    except OverflowError:
        raise WrongAnswer(f"answered {answer}, which has no moment in UTC") from None


_READERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.STRING: _string,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}


# --- bindings ----------------------------------------------------------------------------------


def _bindings_of(places: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Bindings]:
    wanted = f"a set of {'values' if len(places) == 1 else f'{len(places)}-tuples'}"

    def check(answer: Any) -> Bindings:
        if isinstance(answer, str | bytes | dict) or not isinstance(answer, Iterable):
            hint = ": answer an empty set for nothing" if answer is None or answer is False else ""
            raise WrongAnswer(f"answered {_kind(answer)}, not {wanted}{hint}")
        found = [binding(one) for one in itertools.islice(answer, MOST_BINDINGS + 1)]
        if len(found) > MOST_BINDINGS:
            raise WrongAnswer(f"answered more than {MOST_BINDINGS:,} bindings")
        return frozenset(found)

    def binding(one: Any) -> BoundTuple:
        if len(places) == 1 and not isinstance(one, tuple | list):
            one = (one,)
        if not isinstance(one, tuple | list) or len(one) != len(places):
            raise WrongAnswer(f"answered {_kind(one)} among its bindings, not {wanted}")
        return tuple(None if v is None else place(v) for v, place in zip(one, places, strict=True))

    return check
