"""The cost of views while they run: counted by the tasks that work on documents, for `running_costs`.

A pattern's work counts for each of its views, as with equal filters. It is compared with the number of nodes in the
documents, because a pattern that looks at every node once, and returns it, takes no more than that. Views that take
less aren't written down: of 100,000 views hardly any takes more.
"""

import numpy as np

from penstock.base.remote_paths import AnyPath
from penstock.pipeline.running_costs import leave_counts
from penstock.views.dissemination import Dissemination, LevelTuples


class ViewCosts:
    """On a worker: the work of one task, pattern by pattern."""

    def __init__(self, network: Dissemination) -> None:
        self._network = network
        self._work = np.zeros(len(network.fed), np.int64)
        self._nodes = 0

    def add(self, level: LevelTuples) -> None:
        """Count the work of a level on some documents."""
        self._work[level.places.start : level.places.stop] += level.work
        if level.level == 1:
            self._nodes += level.nodes

    def leave(self, folder: AnyPath) -> None:
        """Write the counts to the folder of the micro-batch."""
        counts = {
            view: int(self._work[place])
            for place in np.flatnonzero(self._work > self._nodes).tolist()
            for view in self._network.fed[place].views
        }
        leave_counts(folder, self._nodes, counts)
