"""Idempotent producers: which request is new, which is a repeat, which is refused (Durable Streams §5.2.1).

A producer numbers its requests 0, 1, 2 … within an epoch, and counts the epoch up when it starts anew. The state of a
producer in a log is a row of the same database as the records, and changes in the same transaction.
"""

from dataclasses import dataclass

from penstock.server.publishing.published import (
    MOST_SAFE,
    BadProducer,
    Producer,
    Receipt,
    SequenceGap,
    StaleEpoch,
)

_LONGEST_ID = 256


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The last request of a producer in a log, and where its records stand."""

    epoch: int
    seq: int
    first: int | None
    last: int | None


def check_producer(producer: Producer) -> None:
    """Raise BadProducer for an id or a number that no producer may have.

    >>> check_producer(Producer("", 0, 0))
    Traceback (most recent call last):
    penstock.server.publishing.published.BadProducer: a producer's id has 1 to 256 characters, this one has 0
    """
    if not 0 < len(producer.id) <= _LONGEST_ID:
        raise BadProducer(
            f"a producer's id has 1 to {_LONGEST_ID} characters, this one has {len(producer.id)}"
        )
    for name, number in (("epoch", producer.epoch), ("seq", producer.seq)):
        if not 0 <= number <= MOST_SAFE:
            raise BadProducer(f"the {name} of a producer is from 0 to 2^53-1, not {number}")


def repeat_of(state: ProducerState | None, producer: Producer) -> Receipt | None:
    """The receipt of a request that was published before; None if it is new. Raises ProducerError if it is neither.

    >>> state = ProducerState(epoch=2, seq=5, first=40, last=41)
    >>> repeat_of(state, Producer("p", 2, 6))
    >>> repeat_of(state, Producer("p", 2, 5))
    Receipt(first=40, last=41, repeated=True, seq=5)
    >>> repeat_of(state, Producer("p", 2, 4))
    Receipt(first=None, last=None, repeated=True, seq=5)
    """
    if state is not None and producer.epoch < state.epoch:
        raise StaleEpoch(producer, state.epoch)
    if state is None or producer.epoch > state.epoch:
        if producer.seq == 0:
            return None
        if state is None:
            raise SequenceGap(producer, 0)
        raise BadProducer(
            f"epoch {producer.epoch} of producer {producer.id!r} is new and begins with seq 0, not {producer.seq}"
        )
    if producer.seq > state.seq + 1:
        raise SequenceGap(producer, state.seq + 1)
    if producer.seq == state.seq + 1:
        return None
    if producer.seq == state.seq:
        return Receipt(state.first, state.last, True, state.seq)
    return Receipt(None, None, True, state.seq)
