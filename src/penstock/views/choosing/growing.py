"""Arrays that grow at their end, with room to spare, so that most additions copy nothing but what is added."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class GrowingArrays:
    """Arrays by name. `used` says how much of each is in use; setting it back takes off what was added."""

    arrays: dict[str, npt.NDArray[Any]]
    used: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.used = {name: len(array) for name, array in self.arrays.items()}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """What is in use of an array: no copy, and not to be kept when it grows."""
        return self.arrays[name][: self.used[name]]

    def extend(self, name: str, values: npt.ArrayLike) -> None:
        """Add values at the end of an array."""
        new = np.asarray(values, self.arrays[name].dtype)
        need = self.used[name] + len(new)
        if need > len(self.arrays[name]):
            larger = np.empty(max(need, 2 * len(self.arrays[name])), new.dtype)
            larger[: self.used[name]] = self[name]
            self.arrays[name] = larger
        self.arrays[name][self.used[name] : need] = new
        self.used[name] = need
