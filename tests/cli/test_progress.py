"""What a long command says of itself."""

import pytest

from penstock.cli.progress import CompilingRemarks


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_compiling_is_remarked_on_only_if_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing for a second, then once, then how far it is."""
    clock = _Clock()
    compiling = CompilingRemarks(clock)
    compiling("first")
    clock.now += 0.5
    compiling("second")
    assert capsys.readouterr().err == ""
    clock.now += 1
    compiling("third")
    compiling("fourth")
    assert capsys.readouterr().err.count("compiling, first time only") == 1
    clock.now += 11
    compiling("fifth")
    assert "5 kernels" in capsys.readouterr().err
