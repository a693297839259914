"""Settings of the web side of the service: limits, and what callers without keys and web pages may do."""

from dataclasses import dataclass, field

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class HttpLimits:
    """The most that a request, a caller or an address may ask for.

    Rates are per key, or per address of a caller without one. A request beyond a limit is answered with 413, 429 or
    503, and the answer says which limit it was.
    """

    body_bytes: int = 8 * MIB
    body_seconds: float = 30
    """The time within which a body must have arrived."""
    head_bytes: int = 32 * KIB
    head_seconds: float = 20
    """The time within which the head of a request must have arrived."""
    stalled_seconds: float = 60
    """A reader that takes nothing for so long is cut off."""
    records: int = 10_000
    """Records of one request."""
    text_bytes: int = 64 * KIB
    """Bytes of the text of a subscription."""
    subscriptions: int = 10_000
    """Live subscriptions of one subscriber."""
    requests_per_second: float = 5_000
    burst: int = 10_000
    connections_per_address: int = 1_000
    connections: int = 20_000
    page_bytes: int = 1 * MIB
    """Bytes of notifications in one answer."""
    event_bytes: int = 64 * KIB
    """Bytes of notifications that are sent to a live reader at a time."""
    together: int = 10_000
    """Feeds of a subscriber that can be read as one."""
    wait_seconds: float = 60
    """The longest wait that `Prefer: wait` gets."""
    poll_seconds: float = 30
    """How long a long poll waits."""
    stream_seconds: float = 60
    """The time after which a live stream ends. When its reader comes back, its lease and ticket are checked again."""
    heartbeat_seconds: float = 15
    """The time between signs of life in a live stream that has no notifications."""
    reading_threads: int = 4
    writing_threads: int = 2
    waiting_calls: int = 1_000
    """Calls that wait for a thread; one more is answered with 503."""


@dataclass(frozen=True)
class HttpSettings:
    """The settings of the web side of the service."""

    limits: HttpLimits = field(default_factory=HttpLimits)
    anonymous_publishing: bool = False
    """Whether callers without a key may publish, although there are keys."""
    origins: tuple[str, ...] = ()
    """Origins whose web pages may use the service (CORS), such as https://example.org."""
    hosts: tuple[str, ...] = ()
    """Names under which the service is reached besides loopback ones, while it is open to all."""
