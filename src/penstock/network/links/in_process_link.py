"""A link within one process: a client beside its broker, without a socket."""

import threading

from penstock.network.links.link import Receiver, check_name


class Switchboard:
    """All who have joined, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._receivers: dict[str, Receiver] = {}

    def join(self, name: str, receiver: Receiver) -> "InProcessLink":
        """Join under a name. All who are there already hear of the newcomer, and it hears of them."""
        with self._lock:
            others = dict(self._receivers)
            self._receivers[check_name(name)] = receiver
        for other, one in others.items():
            one.lives(name, True)
            receiver.lives(other, True)
        return InProcessLink(self, name)

    def carry(self, sender: str, name: str, frame: bytes) -> None:
        with self._lock:
            receiver = self._receivers.get(name)
        if receiver is not None:
            receiver.frame(sender, frame)

    def leave(self, name: str) -> None:
        with self._lock:
            self._receivers.pop(name, None)
            others = list(self._receivers.values())
        for one in others:
            one.lives(name, False)


class InProcessLink:
    """The link of one name that has joined."""

    def __init__(self, switchboard: Switchboard, name: str) -> None:
        self._switchboard, self._name = switchboard, name

    def send(self, name: str, frame: bytes) -> None:
        self._switchboard.carry(self._name, name, frame)

    def close(self) -> None:
        self._switchboard.leave(self._name)
