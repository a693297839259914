"""An operator is a Python function with a name, types and a cost.

    @penstock.operator("crowd", cost="20 ms", timeout="2 s")
    def crowd(image: bytes) -> int: ...

Types come from the annotations, or are given by SQL names as in a schema. What the function answers says what kind of
operator it is: `bool`, a value (`crowd(image) > 50`), or a set of bindings (`set[int]`, `Iterable[tuple[str, int]]`),
for which filters have variables (`objects(image, :kind, :count)`).

A plan says by signatures which operators its filters call, but doesn't decide which functions a worker imports:
otherwise whoever can write a plan's files would decide what workers run. Only operators of the owner's list are called.
The list travels to workers with the job, as signatures with import paths, `module:name`. Functions without such a path
(of a notebook, of `__main__`, defined inside another function) work in this process only, and `Operators.portable`
refuses them before a cluster does. There is no global registry: `Operators` is a plain collection that callers hand
over.
"""

import functools
import importlib
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.base.errors import OperatorError
from penstock.language.signatures import MAX_ARGUMENTS, Signature, Signatures, check_name
from penstock.operators.annotations import (
    Duration,
    TypeName,
    answer_of,
    describe_value,
    hints_of,
    parameters_of,
    seconds,
)

OperatorsLike = Any  # Operators | Iterable[Operator] | module | import path | None
DEFAULT_COST = "1 ms"
DEFAULT_TIMEOUT = "10 s"


@dataclass(eq=False)
class Operator:
    """A function with its signature. Calling the operator calls the function.

    With `isolate`, filters call it in a process of its own.
    """

    signature: Signature
    function: Callable[..., Any]
    isolate: bool = False

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Pickle would otherwise look for the function by its name, and find this object instead.
        if _unreachable(self.signature.source) is None:
            return import_operator, (self.signature,)
        return Operator, (self.signature, self.function, self.isolate)

    @property
    def name(self) -> str:
        return self.signature.name


def operator(
    name: str | None = None,
    *,
    cost: Duration = DEFAULT_COST,
    timeout: Duration | None = DEFAULT_TIMEOUT,
    batch: bool = False,
    arguments: Sequence[TypeName] | None = None,
    result: TypeName | None = None,
    binds: Sequence[TypeName] | None = None,
    isolate: bool = False,
) -> Callable[[Callable[..., Any]], Operator]:
    """Make a function an operator, called `name` in filters (by default as in Python).

    `cost` is what a call is expected to take, until it has been measured. A call that takes longer than `timeout` is
    given up, and its event fails; None: never. With `batch` the function gets Arrow arrays, one element per event, and
    answers as many. With `isolate` it is called in a process of its own: if that ends (a library that crashes, no
    memory left), or hangs, the call fails, and the next one gets a new process; a call costs about 0.03 ms more.

    An operator isn't called for events in which an attribute it is given is NULL: as of any function in SQL, the answer
    then is unknown.

    >>> @operator("longer", cost="50 us")
    ... def longer(text: str, than: int) -> bool:
    ...     return len(text) > than
    >>> longer("abc", 2), longer.signature.cost, longer.signature.timeout
    (True, 5e-05, 10.0)
    >>> @operator()
    ... def words(text: str) -> set[tuple[str, int]]:
    ...     return {(w, text.split().count(w)) for w in text.split()}
    >>> [str(kind) for kind in words.signature.binds]
    ['string', 'integer']
    """
    if name is not None and not isinstance(name, str):
        raise OperatorError('write @penstock.operator("name"), with parentheses')

    def define(function: Callable[..., Any]) -> Operator:
        called = name if name is not None else getattr(function, "__name__", "")
        check_name(called)
        hints = hints_of(function, called)
        parameters = parameters_of(function, called, hints, arguments)
        answer, bound = answer_of(called, hints.get("return"), batch, result, binds)
        if len(parameters) + len(bound) > MAX_ARGUMENTS:
            raise OperatorError(f"operator {called!r} has more than {MAX_ARGUMENTS} arguments")
        source = f"{function.__module__}:{getattr(function, '__qualname__', called)}"
        reason = _unreachable(source) if isolate else None
        if reason is not None:
            raise OperatorError(f"operator {called!r} is to be isolated, but {reason}")
        return Operator(
            Signature(
                name=called,
                parameters=parameters,
                result=answer,
                binds=bound,
                source=source,
                cost=seconds(called, "cost", cost),
                timeout=None if timeout is None else seconds(called, "timeout", timeout),
                batch=batch,
            ),
            function,
            isolate,
        )

    return define


class Operators:
    """The operators that filters may call.

    >>> @operator("even")
    ... def even(number: int) -> bool:
    ...     return number % 2 == 0
    >>> [s.name for s in Operators(even).signatures]
    ['even']
    """

    def __init__(self, *operators: Operator) -> None:
        self._operators: dict[str, Operator] = {}
        for one in operators:
            self.add(one)

    def add(self, operator: Operator) -> None:
        """One more. A name stands for one operator only, whatever its case."""
        if not isinstance(operator, Operator):
            raise OperatorError(
                f"{describe_value(operator)} isn't an operator: decorate it with @penstock.operator(…)"
            )
        there = self._operators.get(operator.name.lower())
        if there is not None and there is not operator:
            raise OperatorError(
                f"two operators are called {operator.name!r}: {there.signature.source} and "
                f"{operator.signature.source}; give one of them another name"
            )
        self._operators[operator.name.lower()] = operator

    def find(self, name: str) -> Operator | None:
        """The operator of this name, without regard to case."""
        return self._operators.get(name.lower())

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def __len__(self) -> int:
        return len(self._operators)

    def __repr__(self) -> str:
        return f"Operators({', '.join(sorted(o.name for o in self))})"

    @property
    def signatures(self) -> Signatures:
        return Signatures.of(o.signature for o in self)

    @staticmethod
    def of(source: Any) -> "Operators":
        """From operators, a collection of them, a module, or an import path like `package.module:name`."""
        if isinstance(source, Operators):
            return source
        if source is None:
            return Operators()
        if isinstance(source, str):
            return Operators.of(_imported(source))
        if isinstance(source, Operator):
            return Operators(source)
        if isinstance(source, types.ModuleType):
            return _of_module(source)
        if isinstance(source, Iterable):
            return Operators(*source)
        raise OperatorError(
            f"operators can't be read from {describe_value(source)}: give penstock.Operators, a list of operators, "
            "a module, or an import path like 'package.module'"
        )

    @staticmethod
    def from_signatures(signatures: Signatures, isolate: bool = False) -> "Operators":
        """On a worker: the operators of the owner's list, imported; `isolate`: all of them are to be isolated."""
        found = (import_operator(signature) for signature in signatures)
        return Operators(*(replace(o, isolate=True) if isolate else o for o in found))

    def portable(self) -> None:
        """Refuse operators that a worker couldn't import, all of them at once."""
        problems = []
        for one in self:
            reason = _unreachable(one.signature.source)
            if reason is None:
                try:
                    import_operator(one.signature)
                except OperatorError as error:
                    reason = str(error)
            if reason is not None:
                problems.append(f"operator {one.name!r}: {reason}")
        if problems:
            raise OperatorError("\n".join(problems))


def resolve(signature: Signature, known: Operators) -> Operator:
    """The operator that a plan names, from those that its owner has given; OperatorError if it isn't one of them."""
    found = known.find(signature.name)
    if found is None or found.signature.source != signature.source:
        given = ", ".join(sorted(f"{o.name} ({o.signature.source})" for o in known)) or "none"
        raise OperatorError(
            f"a plan calls operator {signature.name!r} of {signature.source}, which isn't among those that were "
            f"given: {given}. Give it (operators=…) if it is yours; if not, somebody has changed the snapshots"
        )
    return _same(signature, found)


def import_operator(signature: Signature) -> Operator:
    """The operator of a signature that the owner has given, imported from its source."""
    reason = _unreachable(signature.source)
    if reason is not None:
        raise OperatorError(f"operator {signature.name!r}: {reason}")
    return _same(signature, _imported(signature.source))


def _same(signature: Signature, found: Any) -> Operator:
    """The function found, under the signature that the plan was made with."""
    if not isinstance(found, Operator):
        if not callable(found):
            raise OperatorError(f"{signature.source} is {describe_value(found)}, not an operator")
        return Operator(signature, found)
    there = found.signature
    for what in ("parameters", "result", "binds", "batch"):
        if getattr(there, what) != getattr(signature, what):
            raise OperatorError(
                f"operator {signature.name!r} of {there.source} isn't the one that filters were read with: "
                f"its {what} differ; give workers the same version, or compile again"
            )
    return found if there == signature else replace(found, signature=signature)


def _unreachable(source: str) -> str | None:
    """Why no other process can import this, if its path shows it."""
    module, _, name = source.partition(":")
    advice = "move it to the top of a module that workers can import"
    if module == "__main__":
        return f"{name!r} is defined in __main__ (a script or notebook), which workers can't import: {advice}"
    if "<lambda>" in name:
        return f"it is a lambda, which workers can't import: write a function, and {advice}"
    if "<locals>" in name:
        return f"{name!r} is defined inside a function, and workers can't import it: {advice}"
    return None


def _imported(path: str) -> Any:
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise OperatorError(
            f"can't import {module_name!r} ({error}): put the module on the path of this process, and of Spark's "
            "workers (spark-submit --py-files, or install it there)"
        ) from error
    except Exception as error:  # a module may raise anything while it is imported
        raise OperatorError(
            f"importing {module_name!r} failed: {type(error).__name__}: {error}"
        ) from error
    for step in name.split(".") if name else ():
        if not hasattr(found, step):
            raise OperatorError(
                f"module {module_name!r} has no {name!r}: is the version that was imported the right one?"
            )
        found = getattr(found, step)
    return found


def _of_module(module: types.ModuleType) -> Operators:
    found = Operators()
    for value in vars(module).values():
        for one in value if isinstance(value, Operators) else (value,):
            if isinstance(one, Operator):
                found.add(one)
    if not len(found):
        raise OperatorError(
            f"module {module.__name__!r} has no operators: decorate functions with @penstock.operator(…)"
        )
    return found
