"""Paces at work: which notifications go out, and which are held back or gathered.

A subscription that has a pace has *windows* of its interval's length. One opens with the first notification that
arrives when none is open:

    10 per hour       the first ten of a window go out, the others are held back: for good, but counted
    digest per day    none goes out; when the window is over, one digest has the first of them, and how many there were

Windows of different subscriptions begin at different times, so that not everybody's digest is due at midnight. In any
interval at most twice the number of a pace goes out, at the end of a window and at the beginning of the next.

Everything here is a function of a window, a time and what arrives: no clock, no state, nothing that waits. Whoever uses
it (micro-batches, ticks, a process that matches one event after the other) keeps the windows. Should the clock be set
back behind the opening of a window, that one is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.registry.paces import Pace

GATHERED = 100
"""Notifications that a digest has; of more it has the first, and the count of all."""


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of a subscription that has a pace. Times are UTC microseconds.

    `count`: how many notifications of this window went out, or were gathered. `held`: how many were held back, in
    earlier windows, too.
    """

    opened: int
    count: int
    held: int = 0

    def is_over(self, interval: int, now: int) -> bool:
        """Whether it has ended.

        >>> Window(opened=100, count=1).is_over(50, 149), Window(opened=100, count=1).is_over(50, 150)
        (False, True)
        """
        return not self.opened <= now < self.opened + interval


def admit(pace: Pace, window: Window | None, now: int, arrived: int) -> tuple[int, Window]:
    """How many of those that arrive together go out, the first ones; and the window from then on.

    >>> admit(Pace(most=3, interval=50), Window(opened=100, count=2), now=110, arrived=5)
    (1, Window(opened=100, count=3, held=4))
    """
    assert pace.most is not None, "a digest admits nothing"
    held = 0 if window is None else window.held
    if window is None or window.is_over(pace.interval, now):
        window = Window(now, 0)
    through = min(arrived, max(pace.most - window.count, 0))
    return through, Window(window.opened, window.count + through, held + arrived - through)


def gather(window: Window | None, now: int, arrived: int) -> Window:
    """The window of a digest after more has arrived. It stays open until its digest is sent.

    >>> gather(Window(opened=100, count=2), now=110, arrived=5)
    Window(opened=100, count=7, held=0)
    """
    return Window(now, arrived) if window is None else Window(window.opened, window.count + arrived)


def admit_all(
    paces: Mapping[int, Pace], windows: Mapping[int, Window], arrived: Mapping[int, int], now: int
) -> tuple[dict[int, int], dict[int, Window]]:
    """How many go out of what arrives at one time, by subscription; and all windows from then on.

    Windows of those that have no pace any more are forgotten, and those that are over and held nothing back.
    """
    after = {
        sid: window
        for sid, window in windows.items()
        if sid in paces and (window.held or not window.is_over(paces[sid].interval, now))
    }
    through: dict[int, int] = {}
    for sid, count in sorted(arrived.items()):
        through[sid], after[sid] = admit(paces[sid], after.get(sid), now, count)
    return through, after
