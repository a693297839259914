"""Which brokers can be reached, and which are known but can't be: those are *lost*.

    known     every broker that was ever heard of, and not forgotten
    in reach  those named by a neighbour whose link is reached (`open_link`)
    lost      the others, with the time since when

Neighbours are told of both, so that all brokers that are connected know of the same lost ones: an event that is
published meanwhile is kept for them, even by a broker that has never seen them.
"""

from collections.abc import Iterable, Mapping

from penstock.network.wire import Reach


class KnownBrokers:
    """See the module. `me` is never among them."""

    def __init__(self, me: str) -> None:
        self._me = me
        self.known: set[str] = set()
        self.in_reach: set[str] = set()
        self.lost: dict[str, float] = {}  # since when

    def learn(self, names: Iterable[str], now: float) -> None:
        """These brokers exist. Those that are new are lost until they are reached."""
        for name in names:
            if name != self._me and name not in self.known:
                self.known.add(name)
                self.lost[name] = now

    def learn_lost(self, ages: Mapping[str, float], now: float, forget: float) -> None:
        """Other brokers haven't been able to reach these for so many seconds."""
        for name, age in ages.items():
            if name == self._me or name in self.in_reach or age >= forget:
                continue
            self.known.add(name)
            self.lost[name] = min(self.lost.get(name, now), now - max(age, 0.0))

    def reached(self, names: set[str], now: float) -> tuple[set[str], set[str]]:
        """These brokers are in reach now, and no others. Returns those that came into reach, and those now lost."""
        names = names - {self._me}
        found, gone = names - self.in_reach, self.in_reach - names
        self.known |= names
        self.in_reach = names
        for name in found:
            self.lost.pop(name, None)
        for name in gone:
            self.lost[name] = now
        return found, gone

    def forget_old(self, now: float, forget: float) -> list[str]:
        """Forget the brokers that have been lost for too long. Returns them."""
        old = [name for name, since in self.lost.items() if now - since >= forget]
        for name in old:
            del self.lost[name]
            self.known.discard(name)
        return old


class ToldReach:
    """What one neighbour has been told of reach."""

    def __init__(self) -> None:
        self._come: set[str] = set()
        self._lost: set[str] = set()

    def changes(self, come: set[str], lost: Mapping[str, float], now: float) -> Reach | None:
        """The message for it, when these are in reach through me and those are lost; None if nothing has changed."""
        new, gone = come - self._come, self._come - come
        unheard = {
            n: now - since for n, since in lost.items() if n not in self._lost and n not in gone
        }
        if not (new or gone or unheard):
            return None
        self._come = come
        self._lost = set(lost) | gone
        return Reach(tuple(sorted(new)), tuple(sorted(gone)), unheard)
