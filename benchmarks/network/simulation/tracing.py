"""A step of a simulation in a line or a few, for people who look for a mistake."""

from penstock.network.broker_steps import (
    Deliver,
    FrameFrom,
    FrameTo,
    Kept,
    Output,
    Publish,
    Start,
    WakeAt,
)
from penstock.network.wire import Packet, WireError, decode_frame, decode_message


def describe(time: float, name: str, what: object, outputs: list[Output]) -> str:
    """What came, and what followed."""
    lines = [f"{time:9.4f} {name} < {_said(what)}"]
    lines += [
        f"{'':9} {name} > {_said(output)}" for output in outputs if not isinstance(output, WakeAt)
    ]
    return "\n".join(lines)


def _said(what: object) -> str:
    match what:
        case FrameFrom(neighbour, frame):
            return f"from {neighbour}: {_frame(frame)}"
        case FrameTo(neighbour, frame):
            return f"to {neighbour}: {_frame(frame)}"
        case Deliver():
            pairs = zip(what.rows.tolist(), what.subscriptions.tolist(), strict=True)
            return "deliver " + ", ".join(f"{what.id(row).hex()[:6]}→{n}" for row, n in pairs)
        case Publish():
            ids = [what.ids[at : at + 16].hex()[:6] for at in range(0, len(what.ids), 16)]
            return f"publish {what.request} {ids} {what.events.to_pylist()}"
        case Start():
            kept = [one.number for one in what.kept if isinstance(one, Kept)]
            return f"start {what.subscriptions} {what.advertisements} {kept} {what.known} {what.joined}"
    return str(what)[:300]


def _frame(frame: bytes) -> str:
    try:
        found = decode_frame(frame)
    except WireError as error:
        return str(error)
    if not isinstance(found, Packet):
        return str(found)
    messages = ", ".join(str(decode_message(one))[:400] for one in found.messages)
    return f"Packet({found.mine}→{found.yours} {found.first} ack {found.ack}: {messages})"
