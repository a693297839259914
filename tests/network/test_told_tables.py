"""What a neighbour is told of tables: the same whether regions come one by one or many at once."""

import random

import pytest

from penstock.covering.reading import region
from penstock.covering.regions import covers_box
from penstock.language import Schema
from penstock.network.told_tables import told_table

SCHEMA = Schema.of({"a": "int", "b": "int"})


def draw(dice):
    """A corner of the plane, of few different ones: many cover each other, and some are equal."""
    return region(f"a >= {dice.randrange(12)} AND b <= {dice.randrange(12)}", SCHEMA)


@pytest.mark.parametrize("seed", range(6))
def test_covered_regions_in_any_portions(seed):
    """Portions of one and of hundreds, and some that go: the neighbour has what no other region covers."""
    dice = random.Random(seed)
    table = told_table("covering", SCHEMA, 0.0, lambda: 0.0)
    there, has = {}, {}
    for count in (1, 3, 200, 40, 2, 300):
        new = {len(there) + n + 10_000 * count: draw(dice) for n in range(count)}
        there |= new
        changes = [table.put(list(new.items()))]
        gone = dice.sample(sorted(there), len(there) // 3)
        changes.append(table.drop(gone))
        for number in gone:
            del there[number]
        for change in changes:
            assert not change.entered.keys() & has.keys()
            has |= change.entered
            for number in change.left:
                del has[number]
        assert dict(table.entries()) == has
        assert set(has.values()) == {
            one
            for one in there.values()
            if not any(
                covers_box(other.boxes[0], one.boxes[0]) for other in there.values() if other != one
            )
        }
        assert len(set(has.values())) == len(has)
