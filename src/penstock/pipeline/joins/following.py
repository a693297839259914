"""Following the registry: whenever a select-join came or went there is a new snapshot, numbered."""

import json
import logging
from collections.abc import Mapping

from penstock.durations import utc_now
from penstock.errors import RegistryError, SnapshotError
from penstock.joins.catalog import Catalog
from penstock.language.selects import Selects
from penstock.pipeline.joins.snapshots import JoinSnapshots, Publisher
from penstock.pipeline.joins.stages import Stages, Window
from penstock.registry import Subscriptions

log = logging.getLogger("penstock.pipeline")


def read_stages(text: str) -> Stages:
    """Stages out of what `Stages.to_dict` gives, as JSON."""
    found = json.loads(text)
    windows = {name: Window(str(c), int(n)) for name, (c, n) in found["windows"].items()}
    catalog = Catalog.from_json(found["catalog"])
    partitions = int(found["partitions"])
    return Stages(catalog, int(found["buckets"]), tuple(found["alone"]), windows, partitions)


def misfits(texts: Mapping[int, str], stages: Stages) -> dict[int, str]:
    """What is wrong with some of the selects, by id."""
    found, errors = Selects.under(stages.catalog).many(list(texts.values()))
    ids = list(texts)
    wrong = {ids[row]: str(error).splitlines()[0] for row, error in errors}
    for sid, select in zip(ids, found, strict=True):
        lacking = None if select is None else stages.lacking(select.join)
        if lacking is not None:
            wrong[sid] = lacking
    return wrong


class Follower:
    """Publishes the select-joins of a registry into a folder."""

    def __init__(self, url: str, folder: str, stages: str) -> None:
        self._url, self._folder = url, folder
        self._stages = read_stages(stages)
        self._publisher: Publisher | None = None
        self._told: set[int] = set()

    def latest(self) -> int:
        """The version of this moment; if the registry can't be reached, or the disk is full, the one before."""
        try:
            if self._publisher is None:
                registry = Subscriptions.open(self._url, create=False)
                self._publisher = Publisher(
                    JoinSnapshots(self._folder),
                    registry.selects,
                    lambda texts: misfits(texts, self._stages),
                    utc_now,
                )
            version = self._publisher.publish().number
            self._tell()
        except (RegistryError, SnapshotError, OSError) as error:
            latest = JoinSnapshots(self._folder).latest()
            if latest is None:
                raise
            log.warning("select-joins keep snapshot %d: %s", latest.number, error)
            version = latest.number
        return version

    def done_with(self, version: int) -> None:
        """No micro-batch will be replayed with an earlier version."""
        JoinSnapshots(self._folder).prune(needed_from=version)

    def _tell(self) -> None:
        assert self._publisher is not None
        for sid, reason in self._publisher.misfits.items():
            if sid not in self._told:
                self._told.add(sid)
                log.warning("subscription %d is set aside: %s", sid, reason)
