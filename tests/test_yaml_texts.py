"""YAML that anybody may have written: read, or refused with what is wrong; never another error, never for long."""

import pytest

from penstock.base.yaml_texts import YamlError, read_yaml


@pytest.mark.parametrize(
    "text",
    ["a: !!bool maybe", "a: !!timestamp noon", "a: !!int ''", "a: !!float ''", "a: 2026-99-99"],
)
def test_a_value_that_is_none_of_its_type_is_refused(text):
    with pytest.raises(YamlError, match="a value can't be read"):
        read_yaml(text)


@pytest.mark.parametrize("number", ["1:" * 300_000 + "1", "9" * 500_000, "9" * 101 + ".5"])
def test_a_number_that_would_take_minutes_to_read_is_refused(number):
    with pytest.raises(YamlError, match=r"line 2, column 4: a number of [0-9,]+ characters"):
        read_yaml(f"b: 1:30\na: {number}")
    assert read_yaml("a: 1:30") == {"a": 90}
