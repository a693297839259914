"""Paces at work: which notifications go out, and which are held back or gathered.

A subscription that has a pace has *windows* as long as its interval. A window opens with the first notification that
arrives while no window is open:

    10 per hour       the first ten of a window go out; the others are held back: never sent, only counted
    digest per day    nothing goes out at once; when the window is over, one digest has the first ones and their count

Windows of different subscriptions begin at different times, so that not everybody's digest is due at midnight. In any
interval at most twice the number of a pace goes out: at the end of one window and at the beginning of the next.

Everything here is a function of a window, a time and what arrives: no clock, no state, nothing that waits. The callers
(micro-batches, ticks, a process that matches event by event) keep the windows. If the clock is set back to before a
window was opened, that window is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.registry.paces import Pace

GATHERED = 100
"""The most notifications that a digest has. If there are more, it has the first ones, and the count of all."""


@dataclass(frozen=True, slots=True)
class Window:
    """The current window of a subscription that has a pace. Times are UTC microseconds.

    `count`: how many notifications of this window went out, or were gathered. `held`: how many were held back, earlier
    windows included.
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
    """How many of the notifications that arrive together go out (the first ones), and the window from then on.

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
    """How many of the notifications that arrive at one time go out, by subscription, and all windows from then on.

    A window is forgotten if its subscription has no pace any more, or if it is over and nothing was held back.
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
