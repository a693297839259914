"""When a pipeline looks for new events: every so often, or until what is there has been read."""

import re
from dataclasses import dataclass
from typing import Any

from penstock.errors import PipelineError

AVAILABLE_NOW = "available-now"
_INTERVAL = re.compile(
    r"\s*(\d+)\s*(ms|millis(?:econds?)?|s|sec(?:onds?)?|m|min(?:utes?)?|h(?:ours?)?)\s*\Z"
)


@dataclass(frozen=True)
class Trigger:
    """A trigger: an interval in milliseconds, or None for available-now."""

    milliseconds: int | None

    def arguments(self) -> dict[str, Any]:
        """The arguments of Spark's `trigger`."""
        if self.milliseconds is None:
            return {"availableNow": True}
        return {"processingTime": f"{self.milliseconds} milliseconds"}


def trigger_of(text: str) -> Trigger:
    """Read a trigger.

    >>> trigger_of("1 second"), trigger_of("500 ms"), trigger_of("available-now")
    (Trigger(milliseconds=1000), Trigger(milliseconds=500), Trigger(milliseconds=None))
    """
    if text == AVAILABLE_NOW:
        return Trigger(None)
    found = _INTERVAL.match(text) if isinstance(text, str) else None
    if found is None:
        raise PipelineError(
            f"trigger {text!r}: give an interval like '1 second' or '500 milliseconds', or {AVAILABLE_NOW!r}"
        )
    return Trigger(int(found[1]) * _unit(found[2]))


def _unit(word: str) -> int:
    if word == "ms" or word.startswith("milli"):
        return 1
    return {"s": 1000, "m": 60_000, "h": 3_600_000}[word[0]]
