"""Publishes snapshots in processes that are killed. What those need is imported and compiled before they are forked."""

import itertools
import os
import signal

import penstock
from penstock.base.remote_paths import RemotePath
from penstock.matching import SnapshotStore

SCHEMA = {"price": "double"}


def registry() -> penstock.Subscriptions:
    subs = penstock.Subscriptions(SCHEMA)
    subs.subscribe("ann", "price > 5")
    return subs


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def publish_and_die(folder: str, strike: int) -> None:
    """Publish a version; be killed before, in the middle of, or after the n-th file."""
    number, moment = divmod(strike, 3)
    counter = itertools.count()

    def write(path: RemotePath, content: bytes) -> None:
        mine = next(counter) == number
        if mine and moment == 0:
            die()
        with path._written() as out:
            out.write(content[: len(content) // 2])
            if mine and moment == 1:
                die()
            out.write(content[len(content) // 2 :])
        if mine and moment == 2:
            die()

    RemotePath.write_bytes = write  # type: ignore[method-assign]
    SnapshotStore(folder).publish(registry(), SCHEMA)


registry().compile(SCHEMA)
