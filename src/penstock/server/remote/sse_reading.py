"""Server-sent events, read from the pieces in which they come over the network.

A feed sends two types: `data`, a JSON array of notifications, and `control`, with the offset at which to go on.

An event counts once the blank line at its end has come. What a broken connection leaves unfinished is dropped.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """The type of an event, and its data: the lines, joined again."""

    type: str
    data: str


def read_events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events of a body. Comments, and events without data, are left out.

    >>> list(read_events([b"event: da", b"ta\\ndata: [1,\\nda", b"ta: 2]\\n\\n: still here\\n\\nevent: control\\nda"]))
    [ServerEvent(type='data', data='[1,\\n2]')]
    """
    type_, lines = "message", list[str]()
    for line in _lines(pieces):
        if not line:
            if lines:
                yield ServerEvent(type_, "\n".join(lines))
            type_, lines = "message", []
            continue
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode(errors="replace")
        if name == b"event":
            type_ = text
        elif name == b"data":
            lines.append(text)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, without their ends: LF or CR LF. The format also allows a lone CR, which our servers never send."""
    begun: list[bytes] = []
    for piece in pieces:
        head, *rest = piece.split(b"\n")
        begun.append(head)
        for part in rest:
            yield b"".join(begun).removesuffix(b"\r")
            begun = [part]
