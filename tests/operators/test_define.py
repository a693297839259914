"""Defining operators: what a function takes and answers, collections of operators, and finding them again."""

import pickle
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Optional

import pyarrow as pa
import pytest
from tests.operators import sample_operators

from penstock.base.errors import OperatorError
from penstock.language.signatures import Signatures
from penstock.operators.define import Operator, Operators, operator, resolve

SAMPLE = "tests.operators.sample_operators"


def types_of(defined: Operator) -> tuple[list[str], str, list[str]]:
    signature = defined.signature
    return (
        list(map(str, signature.parameters)),
        str(signature.result),
        list(map(str, signature.binds)),
    )


# --- types -------------------------------------------------------------------------------------


def test_types_come_from_annotations():
    """Each Python type has its SQL type; a struct or anything unknown to SQL is anything."""

    @operator()
    def f(
        a: bool, b: int, c: float, d: str, e: Decimal, f: date, g: datetime, h: bytes, i: dict, j: Any,
        k: Optional[int], s: str | None, m: list[int], n: dict[str, float], o,  # noqa: UP045
    ) -> int | None:  # fmt: skip
        return None

    assert types_of(f) == (
        [
            "boolean", "integer", "double", "string", "decimal(38,9)", "date", "timestamp", "binary", "None", "None",
            "integer", "string", "array<integer>", "None", "None",
        ],
        "integer",
        [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "binds"),
    [
        (set[int], ["integer"]),
        (frozenset[str], ["string"]),
        (Iterable[tuple[int, str]], ["integer", "string"]),
        (list[tuple[float]], ["double"]),
        (set[tuple[str, int]] | None, ["string", "integer"]),
    ],
)
def test_an_operator_that_answers_a_collection_binds_variables(answer: Any, binds: list[str]):
    """The types of the variables are those of the collection's elements."""

    def f(x: int):
        return ()

    f.__annotations__["return"] = answer
    assert types_of(operator()(f)) == (["integer"], "None", binds)


def test_types_are_told_by_sql_names_as_in_a_schema():
    """What is told wins over annotations."""

    @operator(
        "f",
        arguments=("struct<lat: double, lon: double>", "int", pa.string(), None),
        result="decimal(10,2)",
    )
    def f(a: str, b: str, c, d) -> int:
        return 0

    assert types_of(f) == (
        ["struct<lat: double, lon: double>", "integer", "string", "None"],
        "decimal(10,2)",
        [],
    )


@pytest.mark.parametrize(
    ("given", "function", "reason"),
    [
        ({}, lambda x: x, "doesn't say what it answers"),
        ({"result": "bigint", "binds": ("int",)}, lambda x: x, "not both"),
        ({"result": "array<int>"}, lambda x: x, "result is array<integer>"),
        ({"result": "binary"}, lambda x: x, "result is binary"),
        ({"result": "nonsense"}, lambda x: x, "is no type"),
        ({"result": "struct<a: int>"}, lambda x: x, "filters compare"),
        ({"binds": ()}, lambda x: x, "at least one type"),
        ({"binds": "int"}, lambda x: x, "at least one type"),
        ({"result": "int", "arguments": "int"}, lambda x: x, "list of types"),
        ({"result": "int", "arguments": ("int", "int")}, lambda x: x, "tells 2 types, the function takes 1"),
        ({"result": "int", "arguments": ()}, lambda x: x, "tells 0 types"),
        ({"result": "int"}, lambda *x: x, "any number of arguments"),
        ({"result": "int", "arguments": ["int"] * 65}, lambda *x: x, "more than 64"),
        ({"result": "int"}, lambda x, *, y: x, "keyword arguments"),
        ({"result": "int", "cost": 20}, lambda x: x, "neither text nor a timedelta"),
        ({"result": "int", "cost": "soon"}, lambda x: x, "can't be read"),
        ({"result": "int", "timeout": "0 s"}, lambda x: x, "not longer than zero"),
        ({"result": "int", "timeout": "3 parsecs"}, lambda x: x, "unknown unit 'parsecs'"),
        ({"batch": True}, lambda x: x, "doesn't say what it answers"),
    ],
)  # fmt: skip
def test_what_makes_no_operator_is_refused_with_the_reason(given: dict, function: Any, reason: str):
    """The message names the operator and what to write instead."""
    with pytest.raises(OperatorError, match=reason) as refused:
        operator("f", **given)(function)
    assert "'f'" in str(refused.value)


@pytest.mark.parametrize("name", ["", "select", "count", "two words", "1st", "left", "a" * 65])
def test_a_name_that_no_filter_could_call_is_refused(name: str):
    """Reserved words, functions of SQL, and what isn't an identifier."""
    with pytest.raises(OperatorError, match="can't be named"):
        operator(name, result="int")(lambda x: x)


def test_a_decorator_without_parentheses_is_refused():
    """The function must not be taken for a name."""
    with pytest.raises(OperatorError, match="with parentheses"):
        operator(lambda x: x)  # type: ignore[arg-type]


def test_durations_are_told_as_people_write_them():
    """Cost and time-out in seconds; a millisecond and ten seconds unless told."""
    f = operator("f", result="int")(lambda x: x)
    g = operator("g", cost="1.5 ms", timeout=timedelta(minutes=1), result="int")(lambda x: x)
    h = operator("h", cost="20 µs", timeout=None, result="int")(lambda x: x)
    found = [(o.signature.cost, o.signature.timeout) for o in (f, g, h)]
    assert found == [(0.001, 10.0), (0.0015, 60.0), (0.00002, None)]


def test_an_operator_is_still_the_function():
    """It is called, named and documented like it."""
    assert sample_operators.doubled(4) == 8
    assert sample_operators.doubled(number=4) == 8
    assert sample_operators.doubled.__doc__ == "Twice as much."
    assert sample_operators.doubled.__name__ == "doubled"


# --- collections -------------------------------------------------------------------------------


def test_two_operators_of_one_name_are_refused():
    """Also if the names differ by case only, because SQL doesn't tell those apart."""
    f, g = (operator(name, result="int")(lambda x: x) for name in ("crowd", "CROWD"))
    with pytest.raises(OperatorError, match="two operators are called 'CROWD'"):
        Operators(f, g)
    Operators(f, f)


def test_a_plain_function_is_no_operator():
    """The message says how to make it one."""
    with pytest.raises(OperatorError, match="decorate it"):
        Operators(sample_operators.plain)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (None, []),
        (sample_operators, ["doubled", "negated"]),
        (SAMPLE, ["doubled", "negated"]),
        (f"{SAMPLE}:doubled", ["doubled"]),
        (sample_operators.doubled, ["doubled"]),
        ([sample_operators.negated], ["negated"]),
        (Operators(sample_operators.negated), ["negated"]),
        ("penstock.operators.library:OPERATORS", None),
    ],
)
def test_operators_come_from_modules_paths_and_collections(source: Any, names: list[str] | None):
    """Whatever a user has at hand."""
    found = Operators.of(source)
    assert names is None or [s.name for s in found.signatures] == names
    assert len(found) == len(found.signatures)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (5, "can't be read from int"),
        ("no.such.module", "can't import 'no.such.module'.*--py-files"),
        (f"{SAMPLE}:nobody", "has no 'nobody'"),
        ("tests.operators", "has no operators"),
        ([5], "isn't an operator"),
    ],
)
def test_what_holds_no_operators_is_refused(source: Any, reason: str):
    """With the reason, and what to do."""
    with pytest.raises(OperatorError, match=reason):
        Operators.of(source)


# --- finding them again ------------------------------------------------------------------------


def test_an_operator_is_found_by_its_signature():
    """The signature travels as JSON; the function, decorated in place or elsewhere, is imported."""
    text = Operators.of(SAMPLE).signatures.to_json()
    found = {o.name: o for o in Operators.from_signatures(Signatures.from_json(text))}
    assert (found["doubled"](3), found["negated"](3)) == (6, -3)
    assert found["doubled"].signature.cost == 0.003


def test_known_operators_needn_t_be_imported():
    """In one process functions needn't be importable at all."""
    local = operator("local", result="int")(lambda x: x + 1)
    assert resolve(local.signature, Operators(local))(1) == 2
    with pytest.raises(OperatorError, match="lambda"):
        Operators.from_signatures(Signatures.of([local.signature]))


@pytest.mark.parametrize("known", [Operators(), Operators(sample_operators.doubled)])
@pytest.mark.parametrize("name", ["doubled", "other"])
def test_a_plan_calls_no_operator_that_its_owner_hasnt_given(known: Operators, name: str):
    """Whatever path stands in a plan, nothing is imported from it: it isn't even looked at."""
    forged = replace(sample_operators.doubled.signature, name=name, source="no_such_module:system")
    with pytest.raises(OperatorError, match=r"of no_such_module:system, which isn't among those"):
        resolve(forged, known)


def test_another_version_of_an_operator_is_refused():
    """A plan that was compiled with other types would read its answers wrongly."""
    signature = replace(sample_operators.doubled.signature, binds=(), batch=True)
    with pytest.raises(OperatorError, match="its batch differ"):
        resolve(signature, Operators(sample_operators.doubled))


def test_what_workers_cant_import_is_told_at_once():
    """All operators that have no import path, each with its reason."""
    nested = operator("nested", result="int")(lambda x: x)
    main = operator("in_main", result="int")(_in("__main__"))
    gone = operator("gone", result="int")(_in("no_such_module"))
    with pytest.raises(OperatorError) as refused:
        Operators(nested, main, gone, sample_operators.doubled).portable()
    lines = str(refused.value).splitlines()
    assert [line.split("'")[1] for line in lines] == ["nested", "in_main", "gone"]
    assert "lambda" in lines[0]
    assert "__main__ (a script or notebook)" in lines[1]
    assert "can't import 'no_such_module'" in lines[2]
    Operators.of(SAMPLE).portable()


def _in(module: str) -> Any:
    def f(x: int) -> int:
        return x

    f.__module__, f.__qualname__ = module, "f"
    return f


def test_an_operator_of_a_module_can_be_pickled():
    """By its import path, as other processes need it."""
    found = pickle.loads(pickle.dumps(sample_operators.doubled))
    assert found.signature == sample_operators.doubled.signature
    assert found(5) == 10


def test_a_missing_package_is_told_with_what_to_install():
    """Without shapely the library says so, in one line."""
    code = "import sys; sys.modules['shapely'] = None\nimport penstock.operators.library.areas"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'penstock[operators]'" in run.stderr.splitlines()[-1]
