"""Random draws that stay the same for ever.

A workload is frozen only if its random numbers are. NumPy promises that of its bit generators and not of the methods
on top of them (`Generator.integers`, `.choice` … may change with any release), so the bits come from NumPy and what is
made of them is here: uniform numbers, and everything else from those.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Draws:
    """A stream of draws; each sequence of seeds has its own.

    >>> Draws(1, 2).integers(0, 100, 5).tolist() == Draws(1, 2).integers(0, 100, 5).tolist()
    True
    """

    def __init__(self, *seeds: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seeds))

    def uniform(self, *shape: int) -> Floats:
        """Numbers in [0, 1): the upper 53 of 64 bits each."""
        bits: npt.NDArray[np.uint64] = self._bits.random_raw(int(np.prod(shape)))
        return (bits >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53

    def integers(self, low: int, high: int, *shape: int) -> Integers:
        """Integers in [low, high), each as likely as any."""
        return low + (self.uniform(*shape) * (high - low)).astype(np.int64)

    def among(self, weights: Floats, *shape: int) -> Integers:
        """Positions in `weights`, each as likely as its weight says."""
        steps = np.cumsum(weights)
        found: Integers = np.searchsorted(steps, self.uniform(*shape) * steps[-1], side="right")
        return found

    def distinct(self, weights: Floats, rows: int, count: int) -> Integers:
        """In each row `count` different positions, ascending.

        Rows with a repetition are drawn again, as a whole. Keys for all positions, of which the largest are taken,
        would need no second draw but `len(weights)` numbers per row: far more, for 3 of 500.

        >>> Draws(1).distinct(np.ones(4), rows=2, count=4).tolist()
        [[0, 1, 2, 3], [0, 1, 2, 3]]
        """
        found = np.sort(self.among(weights, rows, count), axis=1)
        while len(again := np.flatnonzero((found[:, 1:] == found[:, :-1]).any(axis=1))):
            found[again] = np.sort(self.among(weights, len(again), count), axis=1)
        return found


def zipf(count: int, exponent: float = 1.0) -> Floats:
    """Weights that fall with the rank: the first is `2 ** exponent` times the second.

    >>> zipf(4).tolist()
    [1.0, 0.5, 0.3333333333333333, 0.25]
    """
    return np.arange(1, count + 1, dtype=np.float64) ** -exponent
