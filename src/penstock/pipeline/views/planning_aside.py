"""Plans views anew in a thread, while micro-batches go on with the plan that there is.

    micro-batch 7    many patterns came: they are fed from the source, a thread begins to plan
    micro-batch 8    …
    micro-batch 9    the thread is done: its plan is taken over, published as a version, and pinned

Views have the same tuples by every plan, so it doesn't matter when a plan is taken over. The version that a micro-batch
is pinned to has the plan that it used. If the process is killed meanwhile, the newest version says how much has changed
since everything was planned, and the next process begins again.
"""

import logging
import threading

from penstock.views.designing import Planning
from penstock.views.live_views import LiveViews

log = logging.getLogger("penstock.pipeline")


class PlanningAside:
    """Plans the views of a configuration, one plan at a time."""

    def __init__(self) -> None:
        self._running: _Running | None = None

    def follow(self, live: LiveViews) -> bool:
        """Take over a plan that is done, or begin a new one if there is reason to. Returns whether the plan changed."""
        done = self._running
        if done is not None and not done.thread.is_alive():
            self._running = None
            if done.live is live:
                live.take_over(done.planning, done.inputs)
                return done.inputs is not None
        if self._running is None and live.waits_for_plan:
            self._running = _Running(live)
        return False


class _Running:
    """A plan that is being made."""

    def __init__(self, live: LiveViews) -> None:
        self.live = live
        self.planning: Planning = live.planning()
        self.inputs: dict[int, list[int]] | None = None
        self.thread = threading.Thread(target=self._run, name="penstock-planning", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.inputs = self.planning.run()
        except Exception:
            # Nothing is lost: views are fed as before.
            log.exception("%d views can't be planned together", len(self.planning.numbers))
