"""From a plan's cells back to keys.

Cells (`matching.kernels`) say where a value stands among the constants of its attribute: 0 is NULL, even cells are
constants, odd ones lie between them. Which of them no value can be in, `matching.filled_cells` says. So what is said of
ranges that begin and end in filled cells is said of values, exactly as in `regions`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools
from penstock.base.labels import Key
from penstock.covering.values import Values
from penstock.language.key_lines import Line, line_of
from penstock.language.types import Scalar
from penstock.matching.domains import ByteStrings, Domain
from penstock.matching.filled_cells import filled_cells, is_text, next_text, text_at


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The cells of a test that is no set of values: 0 unknown, then its outcomes, whose keys count up from `first`."""

    count: int
    first: int = 0

    @property
    def last(self) -> int:
        return self.count

    def value_mask(self) -> Bools:
        """Which cells have a value: all."""
        return np.ones(self.count + 1, np.bool_)

    def values(self, low: int, high: int) -> Values:
        """The values of cells low .. high, of which none is 0.

        >>> Outcomes(2).values(2, 2), Outcomes(3, -1).values(1, 2)
        (Values(intervals=((1, None),), null=False), Values(intervals=((None, 1),), null=False))
        """
        start = None if low <= 1 else low - 1 + self.first
        end = None if high >= self.count else high + self.first
        return Values(((start, end),))


@dataclass(frozen=True, slots=True)
class DomainCells:
    """The cells of an attribute with values."""

    domain: Domain

    @property
    def last(self) -> int:
        return self.domain.last

    def value_mask(self) -> Bools:
        """Which cells have a value."""
        return filled_cells(self.domain)

    def values(self, low: int, high: int) -> Values:
        """The values of cells low .. high, of which none is 0.

        >>> from penstock.language.types import Kind
        >>> price = DomainCells(Domain(("price",), Scalar(Kind.INTEGER), np.array([5, 6])))
        >>> [price.values(low, high).intervals for low, high in ((2, 4), (3, 5), (3, 3))]
        [((5, 7),), ((6, None),), ()]
        """
        if not len(self.domain.cuts):
            return Values(((None, None),))
        start = None if low <= 1 else self._edge((low - 2) // 2, past=low % 2 == 1)
        end = None if high >= self.last else self._edge((high - 1) // 2, past=high % 2 == 0)
        if start is None and low > 1:
            return Values(())
        found = self._line().clip(start, end)
        return Values(() if found is None else (found,))

    def _edge(self, cut: int, past: bool) -> Key | None:
        """The first key from a cut on, or past it; None if there is none."""
        cuts, line = self.domain.cuts, self._line()
        if not isinstance(cuts, ByteStrings):
            return int(cuts[cut]) + past
        key = text_at(cuts, cut)
        if not line.is_text or is_text(key):
            return line.next(key) if past else key
        return next_text(key)

    def _line(self) -> Line:
        assert isinstance(self.domain.type, Scalar), self.domain.path
        return line_of(self.domain.type)


AttributeCells = Outcomes | DomainCells
