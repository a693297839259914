"""What a broker needs of a link: it sends frames, receives frames, and says who can be reached.

Everybody on a link has a name: a broker `b1`, a client `~alice`. A directed pair of names is one key of Zenoh, or one
subject of NATS, however many filters there are.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.base.errors import PenstockError

CLIENT_MARK = "~"
"""What names of clients begin with: so a client may be called like a broker."""

NETWORK = "penstock"
"""The network that a broker belongs to by default: several networks may share one Zenoh, or one NATS server."""

_NAME = re.compile(rf"{CLIENT_MARK}?[A-Za-z0-9_-]{{1,100}}")


class NetworkError(PenstockError):
    """The network can't be joined, or doesn't do what it is asked."""


@dataclass(frozen=True)
class Receiver:
    """The functions that a link calls, from any of its threads. They must not block."""

    frame: Callable[[str, bytes], object]
    """called with the name of the sender, and the frame"""
    lives: Callable[[str, bool], object]
    """called with a name, and whether it can be reached: a hint, which some links can't give"""


class Link(Protocol):
    """A way to all who have joined the same network."""

    def send(self, name: str, frame: bytes) -> None:
        """Send a frame, or drop it: it never waits."""

    def close(self) -> None:
        """Leave the network."""


def check_name(name: str) -> str:
    """The name unchanged. NetworkError if a key can't hold it.

    >>> check_name("b 1")
    Traceback (most recent call last):
    penstock.network.links.link.NetworkError: 'b 1' can't be a name in the network: give letters, digits, - and _
    """
    if not _NAME.fullmatch(name):
        raise NetworkError(
            f"{name!r} can't be a name in the network: give letters, digits, - and _"
        )
    return name
