"""The state of the network, as the service's own broker and the brokers in its reach report it."""

from typing import Any

from starlette.responses import Response

from penstock.server.web.operations import Answer, Operation
from penstock.server.web.service_parts import Parts
from penstock.server.web.web_calls import Call, answer


async def network(call: Call) -> Response:
    """The service as a client, and every broker that answers."""
    return answer(await call.threads.read(_network, call.parts))


def _network(parts: Parts) -> dict[str, Any]:
    side = parts.network
    if side is None:
        return {"client": None, "brokers": []}
    return {"client": side.state(), "brokers": side.brokers()}


def network_operations() -> list[Operation]:
    """The operations of the network."""
    return [
        Operation(
            "GET",
            "/v1/network",
            network,
            "network",
            "The network of brokers: neighbours, tables, what passes",
            "metrics",
            {
                200: Answer(
                    "The service as a client, and all brokers that answer; null and none without a network",
                    {"application/json": {"type": "object"}},
                )
            },
        )
    ]
