"""The state of a broker, in lines for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.cli.terminal import count, duration_text

_HEAD = (
    *("neighbour", "state", "behind it", "subs in", "subs told", "covered", "mergers"),
    *("adverts in", "adverts told", "events in", "events out", "in vain", "payload hits"),
)
_SEVERAL = "subscriptions and advertisements"


def status_lines(status: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Rows of cells: the broker, each neighbour, each client, the last notices."""
    broker, clients = status["broker"], status["clients"]
    parent = broker["parent"]
    yield (
        f"{status['name']} (rank {status['rank']}), {f'under {parent}' if parent else 'a root'}, "
        f"up for {duration_text(1000 * status['seconds'])}, start {status['incarnation']}",
    )
    yield (
        f"{count(clients['subscriptions'], 'subscription')} and "
        f"{count(clients['advertisements'], 'advertisement')} of clients, "
        f"{count(broker['outbox_events'], 'event')} in the outbox",
    )
    if broker["lost"]:
        yield (f"lost: {', '.join(broker['lost'])}",)
    if broker["neighbours"]:
        yield _HEAD
    for one in broker["neighbours"]:
        yield (
            one["name"] + (" (parent)" if one["is_parent"] else ""),
            "up" if one["is_up"] else "down",
            len(one["reach"]),
            *(one["subscriptions_in"], one["subscriptions_out"], one["covered"], one["mergers"]),
            *(one["advertisements_in"], one["advertisements_out"]),
            *(one["events_in"], one["events_out"], one["in_vain"], one["payload_hits"]),
        )
    for name in dict.fromkeys((*clients["texts"], *clients["mail"])):
        mail = clients["mail"].get(name, {"present": False, "bytes": 0})
        presence = "here" if mail["present"] else "away"
        asked = count(clients["texts"].get(name, 0), "subscription or advertisement", _SEVERAL)
        waits = f"{count(mail['bytes'], 'byte')} of mail wait"
        yield (f"client {name.lstrip('~')}, {presence}: {asked}, {waits}",)
    for notice in status["notices"][-5:]:
        yield (notice["text"],)
