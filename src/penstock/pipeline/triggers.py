"""When a pipeline looks for something new: at intervals, or only until all that is there has been read."""

from dataclasses import dataclass
from typing import Any

from penstock.base.durations import microseconds
from penstock.base.errors import PipelineError

AVAILABLE_NOW = "available-now"


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
    try:
        length = microseconds(text)
    except (ValueError, AttributeError, TypeError):
        length = -1
    if length < 0 or length % 1000:
        raise PipelineError(
            f"trigger {text!r}: give an interval like '1 second' or '500 milliseconds', or {AVAILABLE_NOW!r}"
        )
    return Trigger(length // 1000)
