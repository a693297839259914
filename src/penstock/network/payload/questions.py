"""Questions for payloads that pass through a node: a content crosses a link once, however many ask for it beyond.

    asker ──┐
    asker ──┴──▶ this node ──▶ who is asked        the first question goes on, the others wait for its answer

This node's own questions are among them. Who asks once more, because no answer came in time, isn't kept waiting: that
question goes on, too. So nothing depends on what is remembered here, and only so many questions and askers are,
whatever a neighbour sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.network.payload.carried import PayloadId

_MOST = 1_024  # payloads that are asked for
_MOST_ASKERS = 64  # of one question; one node asks in turn the source and the publisher


@dataclass(slots=True)
class _Question:
    askers: list[str]
    until: float


class Questions:
    """See the module. `patience` is how long a question waits for the answer to an earlier one.

    >>> questions = Questions(patience=2.0)
    >>> [questions.goes_on(who, "source", b"id", now=0.0) for who in ("a", "b", "a")]
    [True, False, True]
    >>> questions.answered("a", b"id", None)
    ['b']
    >>> questions.goes_on("b", "source", b"id", now=0.0)
    True
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._open: dict[PayloadId, dict[str, _Question]] = {}  # by who is asked

    def goes_on(self, asker: str, to: str, id_: PayloadId, now: float) -> bool:
        """A question of `asker` for `to` is here. Whether it goes on, or waits for the answer to an earlier one."""
        of_one = self._open.get(id_)
        if of_one is None and len(self._open) >= _MOST:
            self._forget_old(now)
            if len(self._open) >= _MOST:
                return True
        earlier = None if of_one is None else of_one.get(to)
        if earlier is None or now >= earlier.until:
            if of_one is None or to in of_one or len(of_one) < _MOST_ASKERS:
                self._open.setdefault(id_, {})[to] = _Question([asker], now + self._patience)
            return True
        if asker in earlier.askers:
            earlier.until = now + self._patience
            return True
        if len(earlier.askers) >= _MOST_ASKERS:
            return True
        earlier.askers.append(asker)
        return False

    def answered(self, asker: str, id_: PayloadId, denied_by: str | None) -> list[str]:
        """An answer for `asker` is here. Returns the others that it answers, too.

        A content answers everybody; that a node hasn't got it (`denied_by`), those who asked that node.
        """
        return [who for one in self._closed(id_, denied_by) for who in one.askers if who != asker]

    def clear(self) -> None:
        self._open.clear()

    def _closed(self, id_: PayloadId, denied_by: str | None) -> Iterator[_Question]:
        if denied_by is None:
            yield from self._open.pop(id_, {}).values()
        elif denied_by in self._open.get(id_, {}):
            yield self._open[id_].pop(denied_by)
            if not self._open[id_]:
                del self._open[id_]

    def _forget_old(self, now: float) -> None:
        self._open = {
            id_: left
            for id_, of_one in self._open.items()
            if (left := {to: one for to, one in of_one.items() if now < one.until})
        }
