"""Commands on subscriptions with `--server`: they do the same as on a registry, by asking a service."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.cli.open_registry import end_text
from penstock.cli.service_options import open_client
from penstock.cli.terminal import put, put_json, put_row, say, warn

if TYPE_CHECKING:
    from penstock.matching import Explanation


def subscribe_there(
    server: tuple[str, str | None],
    who: str,
    text: str,
    lease: str,
    metadata: Mapping[str, str],
    *,
    pace: str | None,
    as_json: bool,
) -> None:
    """`penstock subscribe --server`."""
    with open_client(*server) as client:
        granted = client.subscribe(who, text, lease, metadata, pace=pace)
    if as_json:
        put_json(granted._asdict())
        return
    put(f"id      {granted.id}")
    put(f"ticket  {granted.ticket}")
    for warning in granted.warnings:
        warn(f"this subscription {warning}")
    say(
        f"Lease: {_end(granted.expires)}. Keep the ticket: 'penstock follow {granted.id} --ticket …' needs it, "
        "and to renew, update or unsubscribe."
    )


def update_there(
    server: tuple[str, str | None],
    sid: int,
    ticket: str,
    text: str,
    metadata: Mapping[str, str] | None,
    *,
    pace: str | None,
    as_json: bool,
) -> None:
    """`penstock update --server`."""
    with open_client(*server) as client:
        changed = client.update(sid, ticket, text, metadata, pace=pace)
    if as_json:
        put_json(changed)
    else:
        say(f"Subscription {sid} has its new text. Lease: {_end(changed.get('expires'))}.")


def renew_there(
    server: tuple[str, str | None], sid: int, ticket: str, lease: str, *, as_json: bool
) -> None:
    """`penstock renew --server`."""
    with open_client(*server) as client:
        renewed = client.renew(sid, ticket, lease)
    if as_json:
        put_json(renewed)
    else:
        say(f"Subscription {sid} is renewed. Lease: {_end(renewed.get('expires'))}.")


def resync_there(server: tuple[str, str | None], sid: int, ticket: str, *, as_json: bool) -> None:
    """`penstock resync --server`."""
    with open_client(*server) as client:
        asked = client.resync(sid, ticket)
    if as_json:
        put_json(asked)
    else:
        say(f"Subscription {sid} is sent everything again.")


def unsubscribe_there(server: tuple[str, str | None], sid: int, ticket: str) -> None:
    """`penstock unsubscribe --server`."""
    with open_client(*server) as client:
        client.unsubscribe(sid, ticket)
    say(f"Subscription {sid} is gone.")


def list_there(
    server: tuple[str, str | None],
    subscriber: str | None,
    kind: str | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    """`penstock list --server`."""
    search = {} if kind is None else {"kind": kind}
    with open_client(*server) as client:
        for shown, found in enumerate(client.list(subscriber, **search)):
            if shown == limit:
                break
            if as_json:
                put_json(found)
            else:
                end = found.get("expires") or "never"
                put_row(found["id"], end, found["subscriber"], found["subscription"])


def explain_there(
    server: tuple[str, str | None], sid: int, ticket: str, event: Mapping[str, Any]
) -> dict[str, Any]:
    """`penstock explain --server`: what the service answers."""
    with open_client(*server) as client:
        return client.explain(sid, ticket, event)


def read_explanation(found: Mapping[str, Any]) -> "Explanation":
    """An explanation as `Explanation.to_dict` writes it."""
    from penstock.matching.explain import Explanation, LeafVerdict
    from penstock.matching.leaf_truths import CallCost

    verdicts = [
        LeafVerdict(
            one["predicate"],
            one["truth"],
            one["values"],
            CallCost(**one["call"]) if one.get("call") else None,
        )
        for one in found["predicates"]
    ]
    return Explanation(
        found["subscription"],
        found["filter"],
        found["truth"],
        tuple(verdicts),
        found["lease_ended"],
        found["lacking"],
    )


def _end(expires: str | None) -> str:
    return end_text(None if expires is None else datetime.fromisoformat(expires))
