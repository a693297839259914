"""What subscribers are sent, message by message."""

import numpy as np

from benchmarks.baselines.joins.results import JoinMessage, ResultSender
from penstock.joins.messages import (
    ADDED,
    DROPPED,
    Message,
    Messages,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
)
from penstock.joins.notifications import Notifications, Part
from penstock.joins.semijoin_scheme import SemijoinSender


def sent_messages(found: Notifications) -> dict[int, list[Message | JoinMessage]]:
    """What each subscriber gets, in the order in which it is to be applied."""
    pending: dict[int, list[tuple[tuple[int, int], Message | JoinMessage]]] = {}
    for part, read in zip(found.parts, found.readers(), strict=True):
        turns, messages = _turns(part.messages), _messages(part)
        ids = found.ids[read.numbers].tolist()
        for at, sid in zip(read.which().tolist(), ids, strict=True):
            pending.setdefault(sid, []).append((turns[at], messages[at]))
    return {
        sid: [message for _, message in sorted(mine, key=lambda pair: pair[0])]
        for sid, mine in pending.items()
    }


def _turns(messages: Messages) -> list[tuple[int, int]]:
    """Change by change: first what is removed, then what is added, last what is dropped."""
    phase = np.where(messages.form == DROPPED, 2, messages.kind == ADDED)
    return list(zip(messages.change.tolist(), phase.tolist(), strict=True))


def _messages(part: Part) -> list[Message | JoinMessage]:
    messages, sender = part.messages, part.sender
    if isinstance(sender, ResultSender):
        return [sender.message(messages, at) for at in range(len(messages))]
    assert isinstance(sender, SemijoinSender)
    table, key, joined_on = sender.base.name, sender.base.table.key, sender.join_attributes
    found: list[Message | JoinMessage] = []
    for at, row in enumerate(sender.contents(messages).to_pylist()):
        if messages.form[at] == DROPPED:
            found.append(TuplesDropped(table, joined_on, tuple(row[name] for name in joined_on)))
        elif messages.kind[at] == ADDED:
            found.append(TupleAdded(table, row))
        else:
            found.append(TupleRemoved(table, tuple(row[name] for name in key)))
    return found
