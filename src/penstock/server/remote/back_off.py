"""How long to wait before something is tried again: longer each time, and never all at the same moment."""

import random
from dataclasses import dataclass, field

_FIRST = 0.1  # seconds
_LONGEST = 30.0


@dataclass(slots=True)
class BackOff:
    """The pauses between tries, drawn at random. The range doubles from pause to pause, up to half a minute.

    Without chance, all clients of a server that was restarted would come back at the same moment.

    >>> pauses = BackOff(dice=random.Random(1))
    >>> [round(pauses.next_pause(), 2) for _ in range(4)]
    [0.06, 0.18, 0.35, 0.5]
    >>> pauses.next_pause(at_least=60) >= 60
    True
    >>> pauses.reset(); pauses.next_pause() <= 0.1
    True
    """

    dice: random.Random = field(default_factory=random.Random)
    tries: int = 0

    def next_pause(self, at_least: float = 0.0) -> float:
        """Seconds to wait before the next try; `at_least` is what the other side asked for."""
        longest = min(_LONGEST, _FIRST * 2.0 ** min(self.tries, 20))
        self.tries += 1
        return max(at_least, longest * self.dice.uniform(0.5, 1.0))

    def reset(self) -> None:
        """Begin with short pauses again, after a success."""
        self.tries = 0
