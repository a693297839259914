"""A link over Zenoh: a router of it lives in each broker's own process, so there is no server to install.

    penstock/NETWORK/links/FROM/TO     one key for each directed pair
    penstock/NETWORK/alive/NAME        a liveliness token: Zenoh says when its session is gone

Reconnection, routing around a router that is gone, access control and TLS are Zenoh's, by its own configuration. That
configuration can also change what is set here:

- frames that a neighbour doesn't take are dropped, on the way too: a router that waited for one neighbour would hold up
  all others, and sessions repeat what is lost;
- there is no multicast: the settings name the brokers to connect to;
- there is no shared memory: a process that is killed would leave its segments behind.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.network.links.link import NETWORK, NetworkError, Receiver, check_name

if TYPE_CHECKING:
    import zenoh

_QUEUED = 16  # batches of 64 KiB for one neighbour, which is the most that Zenoh allows
_LEASE = 10_000  # milliseconds after which a neighbour that says nothing is gone
_RETRY = {"period_init_ms": 100, "period_max_ms": 2_000, "period_increase_factor": 2}
_FIRST_TRY = 5_000  # milliseconds that a client waits for its broker


@dataclass(frozen=True)
class ZenohPlace:
    """Where a session listens and whom it connects to, as Zenoh's endpoints: `tcp/host:7447`, `tls/host:7447`."""

    listen: Sequence[str] = ()
    connect: Sequence[str] = ()
    mode: Literal["router", "client"] = "router"
    config: Mapping[str, Any] = field(default_factory=dict)
    """Zenoh's own configuration, laid over ours: `{transport: {link: {tls: …}}, access_control: …}`."""


class ZenohLink:
    """A session of Zenoh's, joined to a network under a name."""

    def __init__(
        self, name: str, place: ZenohPlace, receiver: Receiver, *, network: str = NETWORK
    ) -> None:
        module = import_zenoh()
        self._name = check_name(name)
        self._keys = f"penstock/{check_name(network)}"
        self._receiver = receiver
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._quality = {
            "congestion_control": module.CongestionControl.DROP,
            "express": True,  # a frame is a batch already, and doesn't wait for others
        }
        direct = module.handlers.Callback
        try:
            session = module.open(_config(module, place))
        except module.ZError as error:
            raise NetworkError(_reason(place, error)) from error
        self._session = session
        self._gone = module.SampleKind.DELETE
        self._kept = [
            session.declare_subscriber(
                f"{self._keys}/links/*/{name}", direct(self._received, indirect=False)
            ),
            session.liveliness().declare_subscriber(
                f"{self._keys}/alive/*", direct(self._lives, indirect=False), history=True
            ),
            session.liveliness().declare_token(f"{self._keys}/alive/{name}"),
        ]

    def send(self, name: str, frame: bytes) -> None:
        """Send a frame, or drop it. Only one thread may call this."""
        publisher = self._publishers.get(name)
        if publisher is None:
            key = f"{self._keys}/links/{self._name}/{check_name(name)}"
            publisher = self._session.declare_publisher(key, **self._quality)
            self._publishers[name] = publisher
        publisher.put(frame)

    def close(self) -> None:
        self._session.close()

    def _received(self, sample: "zenoh.Sample") -> None:
        self._receiver.frame(str(sample.key_expr).split("/")[-2], sample.payload.to_bytes())

    def _lives(self, sample: "zenoh.Sample") -> None:
        name = str(sample.key_expr).rpartition("/")[2]
        if name != self._name:
            self._receiver.lives(name, sample.kind != self._gone)


def import_zenoh() -> Any:
    """The module. If it isn't there, a NetworkError that says what to install."""
    try:
        import zenoh
        import zenoh.handlers
    except ImportError as error:
        raise NetworkError(
            "links over Zenoh need eclipse-zenoh: pip install 'penstock[network]'"
        ) from error
    return zenoh


def check_config(config: Mapping[str, Any]) -> None:
    """NetworkError if Zenoh can't read this configuration."""
    _config(import_zenoh(), ZenohPlace(config=config))


def _config(zenoh: Any, place: ZenohPlace) -> Any:
    config = zenoh.Config()
    ours: dict[str, Any] = {
        "mode": place.mode,
        "listen/endpoints": list(place.listen),
        "connect/endpoints": list(place.connect),
        "connect/retry": _RETRY,
        "connect/timeout_ms": -1 if place.mode == "router" else _FIRST_TRY,
        "connect/exit_on_failure": place.mode != "router",
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "transport/link/tx/lease": _LEASE,
        "transport/link/tx/queue/size/data": _QUEUED,
    }
    for key, value in (*ours.items(), *_leaves(place.config)):
        try:
            config.insert_json5(key, json.dumps(value))
        except (zenoh.ZError, ValueError) as error:
            raise NetworkError(f"Zenoh's configuration, {key}: {_first_line(error)}") from error
    return config


def _leaves(config: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """A nested configuration by its keys.

    >>> _leaves({"transport": {"link": {"tls": {"enable_mtls": True}}}, "access_control": {"rules": []}})
    [('transport/link/tls/enable_mtls', True), ('access_control/rules', [])]
    """
    found: list[tuple[str, Any]] = []
    for name, value in config.items():
        key = f"{before}{name}"
        found += _leaves(value, f"{key}/") if isinstance(value, Mapping) else [(key, value)]
    return found


def _reason(place: ZenohPlace, error: Exception) -> str:
    if place.mode == "client":
        return f"no broker answers at {', '.join(place.connect)}: {_first_line(error)}"
    return f"can't listen at {', '.join(place.listen)}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
