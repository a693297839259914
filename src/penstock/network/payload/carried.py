"""An event as CN* carries it: a body that filters test, and payloads that may have been left out (joins §5).

    body        {"edge": …, "Stocks.Symbol": "GOOG"}        always there
    payloads    header    which attributes, the hash of their content, who may have it, who published it
                content   the bytes of the attributes, or nothing: the receiver has had them before

The paper's three attributes are in the header: PayloadAttrs, ID and Source. Beside the source it names the publisher,
which is asked last. An event may have several payloads, each with a header of its own, where the paper has one: so two
tuples in one event are recognised independently.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from penstock.base.errors import PenstockError

PayloadId = bytes
"""The hash of a payload's content: equal contents are one payload, whoever published them."""

_ID_BYTES = 16


class PayloadHeader(msgspec.Struct, frozen=True, array_like=True):
    """What an event says of one of its payloads, whether or not the content is there."""

    attributes: tuple[str, ...]
    id: PayloadId
    source: str
    publisher: str


@dataclass(frozen=True, slots=True)
class CarriedEvent:
    """An event on its way. `contents` has the payloads that are there, by id."""

    body: Mapping[str, Any]
    headers: tuple[PayloadHeader, ...] = ()
    contents: Mapping[PayloadId, bytes] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return all(header.id in self.contents for header in self.headers)

    def whole_event(self) -> dict[str, Any]:
        """The event with all its attributes. PenstockError if a payload isn't there."""
        event = dict(self.body)
        for header in self.headers:
            content = self.contents.get(header.id)
            if content is None:
                raise PenstockError(f"the payload {', '.join(header.attributes)} isn't there")
            event |= zip(header.attributes, msgspec.msgpack.decode(content), strict=True)
        return event

    def with_contents(
        self, contents: Mapping[PayloadId, bytes], sources: Mapping[PayloadId, str]
    ) -> "CarriedEvent":
        """The same event with just these payloads, and these sources; other sources stay as they are."""
        headers = tuple(
            header
            if header.id not in sources
            else msgspec.structs.replace(header, source=sources[header.id])
            for header in self.headers
        )
        return replace(self, headers=headers, contents=contents)


def payload_id(content: bytes) -> PayloadId:
    """The id of a payload."""
    return hashlib.blake2b(content, digest_size=_ID_BYTES).digest()


def carry_event(
    event: Mapping[str, Any], payloads: Sequence[Sequence[str]], publisher: str
) -> CarriedEvent:
    """An event as it begins its way. Each group of attributes in `payloads` becomes a payload.

    Attributes that the event lacks are left out of their group.

    >>> carried = carry_event({"symbol": "GOOG", "logo": "…", "text": "long"}, [["logo"], ["text"]], "b1")
    >>> carried.body, [header.attributes for header in carried.headers], carried.is_whole
    ({'symbol': 'GOOG'}, [('logo',), ('text',)], True)
    >>> carried.whole_event() == {"symbol": "GOOG", "logo": "…", "text": "long"}
    True
    """
    headers: list[PayloadHeader] = []
    contents: dict[PayloadId, bytes] = {}
    taken: set[str] = set()
    for group in payloads:
        names = tuple(name for name in group if name in event and name not in taken)
        if names:
            content = msgspec.msgpack.encode([event[name] for name in names])
            id_ = payload_id(content)
            headers.append(PayloadHeader(names, id_, publisher, publisher))
            contents[id_] = content
            taken.update(names)
    body = {name: value for name, value in event.items() if name not in taken}
    return CarriedEvent(body, tuple(headers), contents)
