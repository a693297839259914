"""Fronts of packages: what they promise is there."""

import importlib
import subprocess
import sys

import pytest

FRONTS = ["penstock", "penstock.matching", "penstock.pipeline", "penstock.registry"]


@pytest.mark.parametrize("name", FRONTS)
def test_every_name_is_found_in_its_room(name):
    """All that a package lists can be imported from it, and nothing else."""
    package = importlib.import_module(name)
    for offered in package.__all__:
        assert getattr(package, offered) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing


@pytest.mark.parametrize("name", FRONTS)
def test_a_front_imports_no_room(name):
    """Neither Spark nor Numba, until something is asked for."""
    heavy = ["numba", "pyspark", "sqlalchemy", "sqlglot"]
    program = f"import sys, {name}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("first", ["check", "check_many", "examine"])
def test_a_name_that_is_also_its_room_is_not_the_module(first):
    """Whichever name of the room is asked for first."""
    program = (
        f"from penstock.matching import {first}; from penstock.matching import check; "
        "print(check('price > 5'))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("module", ["stateful", "registry_source"])
def test_what_spark_loads_in_every_helper_is_light(module):
    """Spark starts processes just to ask these for a schema: they import nothing of the core."""
    program = f"import sys, penstock.pipeline.joins.{module}; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "False", found.stderr
