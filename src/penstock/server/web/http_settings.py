"""What the web side of the service may be told: limits, who may come in without a key, from which web pages."""

from dataclasses import dataclass, field

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class HttpLimits:
    """The most that a request, a caller or an address may ask for.

    Rates are per key, or per address of a caller without one. What passes a limit is answered with 413, 429 or 503 and
    says which limit it was.
    """

    body_bytes: int = 8 * MIB
    body_seconds: float = 30
    """Within which a body has to be there."""
    head_bytes: int = 32 * KIB
    head_seconds: float = 20
    """Within which the head of a request has to be there."""
    stalled_seconds: float = 60
    """A reader that takes nothing for so long is cut off."""
    records: int = 10_000
    """Records of one request."""
    text_bytes: int = 64 * KIB
    """Of a subscription."""
    subscriptions: int = 10_000
    """Live subscriptions of one subscriber."""
    requests_per_second: float = 5_000
    burst: int = 10_000
    connections_per_address: int = 1_000
    connections: int = 20_000
    page_bytes: int = 1 * MIB
    """Of notifications in one answer."""
    event_bytes: int = 64 * KIB
    """Of notifications that are sent to a live reader at a time."""
    together: int = 10_000
    """Feeds of a subscriber that can be read as one."""
    wait_seconds: float = 60
    """The longest that `Prefer: wait` is waited for."""
    poll_seconds: float = 30
    """How long a long poll waits."""
    stream_seconds: float = 60
    """After which a live stream ends, so that its reader comes back: leases and tickets are looked at anew."""
    heartbeat_seconds: float = 15
    """Between signs of life in a live stream that has nothing to say."""
    reading_threads: int = 4
    writing_threads: int = 2
    waiting_calls: int = 1_000
    """Calls that wait for a thread; one more is answered with 503."""


@dataclass(frozen=True)
class HttpSettings:
    """How the web side of the service behaves."""

    limits: HttpLimits = field(default_factory=HttpLimits)
    anonymous_publishing: bool = False
    """Whether whoever has no key may publish, although there are keys."""
    origins: tuple[str, ...] = ()
    """Origins whose web pages may use the service (CORS), such as https://example.org."""
    hosts: tuple[str, ...] = ()
    """Names under which the service is reached besides loopback ones, while it is open to all."""
