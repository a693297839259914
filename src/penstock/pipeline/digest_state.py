"""What waits for digests: open windows, and the places of the notifications gathered for them. It doesn't use Spark.

    digests/penstock/ticks/7.json    tick 7: its time, the last micro-batch of each input whose gathered notifications
                                     it has taken, and the windows that are open after it

A tick takes what micro-batches have gathered since the last tick, and closes the windows that are over: these are its
digests. They follow from the tick before, the tick's own time, and the last micro-batches that it takes. All of this is
written down before anything is sent, so that a replay sends the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.base.checked_files import FileKind
from penstock.base.durable import create_file, make_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.delivery.pacing import GATHERED, Window, gather

TOGETHER = 50_000
"""The most notifications in the digests of a tick, unless a single one has more. The next tick sends the others."""
_KEPT = 3  # ticks, besides the one that may be replayed
_TICK = FileKind(
    {"tick": int, "now": int, "taken": dict, "open": dict},
    PipelineError,
    "restore the file, or start anew with another checkpoint folder and another folder for the sink",
)

Place = tuple[str, int]
"""An input and one of its micro-batches."""


@dataclass(frozen=True)
class OpenDigest:
    """A digest that is being gathered: its window and how long that is, how many notifications are kept for it, and the
    micro-batches that have them."""

    window: Window
    interval: int
    kept: int
    places: tuple[Place, ...]

    def is_due(self, now: int) -> bool:
        return self.window.is_over(self.interval, now)


@dataclass(frozen=True)
class Arrival:
    """What a micro-batch has gathered for one subscription: how many, and how many of them it has kept."""

    subscription: int
    interval: int
    count: int
    kept: int


@dataclass(frozen=True)
class Tick:
    """The state after a tick."""

    now: int
    taken: Mapping[str, int]
    open: Mapping[int, OpenDigest]

    def needed(self) -> set[Place]:
        """The micro-batches whose gathered notifications are still to be sent."""
        return {place for one in self.open.values() for place in one.places}


NOTHING = Tick(0, {}, {})


def take(tick: Tick, place: Place, arrivals: Iterable[Arrival], now: int) -> Tick:
    """The state after a tick has taken, at time `now`, what a micro-batch has gathered."""
    waiting = dict(tick.open)
    for one in arrivals:
        before = waiting.get(one.subscription)
        window = gather(before.window if before else None, now, one.count)
        kept, places = (before.kept, before.places) if before else (0, ())
        if kept < GATHERED:
            kept, places = min(GATHERED, kept + one.kept), (*places, place)
        waiting[one.subscription] = OpenDigest(window, one.interval, kept, places)
    name, number = place
    return Tick(now, {**tick.taken, name: number}, waiting)


def close_due(tick: Tick, now: int) -> tuple[dict[int, OpenDigest], Tick]:
    """The digests that are due, those that have waited longest first; and the state without them."""
    due = [
        (one.window.opened + one.interval, sid) for sid, one in tick.open.items() if one.is_due(now)
    ]
    chosen: dict[int, OpenDigest] = {}
    size = 0
    for _, sid in sorted(due):
        size += tick.open[sid].kept
        if chosen and size > TOGETHER:
            break
        chosen[sid] = tick.open[sid]
    left = {sid: one for sid, one in tick.open.items() if sid not in chosen}
    return chosen, replace(tick, now=now, open=left)


# --- as it is kept ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TickLog:
    """The ticks of a pipeline, in its part of the checkpoint folder."""

    checkpoint: str

    @property
    def _folder(self) -> AnyPath:
        return path_of(self.checkpoint) / "penstock" / "ticks"

    def keep(self, number: int, tick: Tick) -> None:
        """Write down a tick. What was written first stays."""
        waiting = {
            str(sid): [one.window.opened, one.window.count, one.interval, one.kept, one.places]
            for sid, one in tick.open.items()
        }
        content = {"tick": number, "now": tick.now, "taken": dict(tick.taken), "open": waiting}
        make_folder(self._folder)
        create_file(self._folder / f"{number}.json", _TICK.to_text(content))

    def find(self, number: int) -> Tick | None:
        """The state after a tick, if it was written down."""
        path = self._folder / f"{number}.json"
        try:
            found = _TICK.read(path)
        except FileNotFoundError:
            return None
        if found["tick"] != number:
            raise _TICK.damage(path, f"it is tick {found['tick']}")
        waiting = {
            int(sid): OpenDigest(Window(opened, count), interval, kept, tuple(map(tuple, places)))
            for sid, (opened, count, interval, kept, places) in found["open"].items()
        }
        return Tick(found["now"], found["taken"], waiting)

    def before(self, number: int) -> Tick:
        """The state before a tick, which is empty before the first."""
        earlier = [one for one in self._numbers() if one < number]
        found = self.find(max(earlier)) if earlier else None
        return found or NOTHING

    def prune(self, number: int) -> None:
        """Delete what no tick from this one on needs."""
        for one in [one for one in self._numbers() if one < number][:-_KEPT]:
            (self._folder / f"{one}.json").unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        return sorted(
            int(path.stem) for path in paths_in(self._folder, "*.json") if path.stem.isdigit()
        )
