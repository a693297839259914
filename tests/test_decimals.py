"""Numbers in bytes against Python's `Decimal` and `float`."""

import re
from decimal import Decimal

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.base.decimals import MOST_DIGITS, MOST_POWER, nearest_double, read_decimal

NUMBER = re.compile(
    r"[ \t\n\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\r]*", re.ASCII
)
SIGNS = ["0", "00", "1", "5", "9007199254740993", ".", "e", "E", "+", "-", " ", "\t", "x"]

texts = st.from_regex(NUMBER, fullmatch=True) | st.lists(st.sampled_from(SIGNS)).map("".join)


@given(texts)
@settings(deadline=None, max_examples=300)
@example("")
@example("1e")
@example("1.2.3")
@example("9" * MOST_DIGITS)
@example("9" * (MOST_DIGITS + 1))
@example("1e22")
@example("1e23")
@example("9007199254740993")
@example(" -.5e-3\n")
@example("1e" + "9" * 30)
def test_a_number_is_what_its_digits_say(text: str) -> None:
    """What is no number is told apart; of the others mantissa and exponent are right, and so are doubles."""
    data = np.frombuffer(text.encode(), np.uint8)
    found = read_decimal(data, 0, len(data))
    value, exact = nearest_double(found)
    assert (found.digits >= 0) == (NUMBER.fullmatch(text) is not None)
    if 0 <= found.digits <= MOST_DIGITS and abs(found.exponent) < MOST_POWER // 2:
        digits = Decimal(found.mantissa).as_tuple().digits
        assert Decimal((found.negative, digits, found.exponent)) == Decimal(text.strip())
    if exact:
        assert value == float(text)
    elif found.digits >= 0:
        assert found.digits > MOST_DIGITS or found.mantissa >= 2**53 or abs(found.exponent) > 22


@given(st.lists(texts, max_size=4))
@settings(deadline=None, max_examples=100)
def test_a_number_is_read_as_if_it_were_alone(found: list[str]) -> None:
    """What stands before or behind it, in the same piece of memory, makes no difference."""
    together = np.frombuffer("".join(found).encode(), np.uint8)
    at = 0
    for text in found:
        alone = np.frombuffer(text.encode(), np.uint8)
        assert read_decimal(together, at, at + len(alone)) == read_decimal(alone, 0, len(alone))
        at += len(alone)
