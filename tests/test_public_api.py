"""The public API as users know it: every name, and how it is called. `PENSTOCK_WRITE_GOLDEN=1` writes the list anew."""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import penstock

GOLDEN = Path(__file__).with_name("public_api.txt")


def test_the_public_api_is_what_it_was():
    """A name that goes, or a parameter that changes, breaks somebody's program."""
    found = "\n".join(_lines()) + "\n"
    if os.environ.get("PENSTOCK_WRITE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def _lines() -> Iterator[str]:
    for name in sorted(penstock.__all__):
        offered = getattr(penstock, name)
        if not inspect.isclass(offered):
            yield f"{name}{_parameters(offered)}"
        elif issubclass(offered, Exception):
            yield f"{name}({offered.__bases__[0].__name__})"
        else:
            yield f"{name}{_parameters(offered)}"
            for member in sorted(vars(offered).keys() | _inherited(offered)):
                value = inspect.getattr_static(offered, member)
                if not member.startswith("_"):
                    yield f"    .{member}{_parameters(value)}"


def _inherited(offered: type) -> set[str]:
    own = [base for base in offered.__mro__ if base.__module__.startswith("penstock.")]
    return {member for base in own for member in vars(base)}


def _parameters(value: object) -> str:
    value = getattr(value, "__func__", value)  # of static and class methods
    if not callable(value):
        return ""
    return f"({', '.join(p.name for p in inspect.signature(value).parameters.values())})"
