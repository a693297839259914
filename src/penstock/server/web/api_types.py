"""The types of requests and answers. Requests are checked against them, and OpenAPI is made from them.

A request with an unknown field is refused: a misspelt `leese` must not mean the default.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
SubscriptionText = Annotated[
    str,
    Meta(
        min_length=1,
        description="A filter over events, a SELECT over tables, or a tree pattern over documents",
        examples=["symbol = 'GOOG' AND price > 500"],
    ),
]
LeaseText = Annotated[
    str,
    Meta(
        description="How long it holds unless it is renewed: '1 day', '2h', '90 minutes', 'forever'",
        examples=["1 day"],
    ),
]
PaceText = Annotated[
    str,
    Meta(
        description="How often it wants to be told: at most so many an interval, a digest of each, or 'unlimited'",
        examples=["10 per hour", "digest per day"],
    ),
]
Metadata = Annotated[
    dict[str, str], Meta(description="What whoever delivers wants to know; 16,384 bytes at most")
]
Time = Annotated[str, Meta(description="RFC 3339, UTC", examples=["2026-01-31T12:00:00+00:00"])]
Offset = Annotated[str, Meta(description="Of a feed; opaque", examples=["0000000000000042"])]


class NewWebhook(Struct, forbid_unknown_fields=True):
    """Where to post to. Without a secret one is made, and shown in the answer."""

    url: Annotated[str, Meta(max_length=2048, examples=["https://example.org/hook"])]
    secret: Annotated[str, Meta(max_length=1024)] | UnsetType = UNSET
    offset: (
        Annotated[
            Offset, Meta(description="Of the feed: where to begin. By default with what comes next")
        ]
        | UnsetType
    ) = UNSET


class ShownWebhook(Struct):
    """How a webhook stands. Its secret is shown only when it is given."""

    url: str
    state: Annotated[
        str,
        Meta(
            description="delivering, failing, or set-aside: nothing is posted until it is resumed"
        ),
    ]
    offset: Annotated[Offset, Meta(description="Of the first notification that wasn't taken")]
    tries: Annotated[int, Meta(description="Requests in a row that weren't taken")]
    reason: Annotated[str | None, Meta(description="Why the last of them wasn't")]
    secret: str | UnsetType = UNSET


class Delivery(Struct, forbid_unknown_fields=True):
    """How notifications reach the subscriber, besides the feed."""

    webhook: NewWebhook


class NewSubscription(Struct, forbid_unknown_fields=True):
    """What is subscribed to, by whom, for how long."""

    subscriber: Name
    subscription: SubscriptionText
    lease: LeaseText = "1 day"
    metadata: Metadata = {}
    pace: PaceText | UnsetType = UNSET
    delivery: Delivery | UnsetType = UNSET


class Subscribed(Struct):
    """A subscription that was made. The ticket is shown this once."""

    id: int
    ticket: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    feed: str
    offset: Offset
    kind: str
    expires: Time | None
    warnings: list[str]
    matching: Annotated[
        bool, Meta(description="Whether all that is published from now on is matched with it")
    ]
    webhook: ShownWebhook | UnsetType = UNSET


class ShownSubscription(Struct):
    """A subscription as whoever may see it sees it."""

    id: int
    subscriber: str
    subscription: str
    kind: str
    created: Time
    expires: Time | None
    metadata: dict[str, str]
    feed: str
    sequence: Annotated[int, Meta(description="The number of its last change")]
    pace: PaceText | None


class ListedSubscription(ShownSubscription):
    """A subscription in a list, with figures if they were asked for."""

    cost: (
        Annotated[
            int,
            Meta(description="How many tests that no index decides it may take to match an event"),
        ]
        | UnsetType
    ) = UNSET
    notified: (
        Annotated[int, Meta(description="Its notifications of the last minute")] | UnsetType
    ) = UNSET


class SubscriptionPage(Struct):
    """Some subscriptions in order of id. `next`, if there is more, is what to give as `after`."""

    subscriptions: list[ListedSubscription]
    next: int | None


class SubscriptionChange(Struct, forbid_unknown_fields=True):
    """What is to be changed; what is left out stays."""

    subscription: SubscriptionText | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    pace: PaceText | UnsetType = UNSET


class Renewal(Struct, forbid_unknown_fields=True):
    """A new lease, from now on."""

    lease: LeaseText = "1 day"


class TextToCheck(Struct, forbid_unknown_fields=True):
    """A text that somebody might subscribe to."""

    subscription: SubscriptionText


class RecentEvent(Struct):
    """Something that was published lately: events, documents, or tables/<name>."""

    position: int
    log: str
    published: Time
    record: Any


class CheckedText(Struct):
    """What a text is, and which of the newest events it would have matched."""

    kind: str
    cost: int
    warnings: list[str]
    tried: Annotated[int, Meta(description="How many recent events it was tried on")]
    matched: Annotated[int, Meta(description="How many of those match")]
    matches: Annotated[list[RecentEvent], Meta(description="The newest of those, ten at most")]


class EventToExplain(Struct, forbid_unknown_fields=True):
    """What a subscription is to be explained on: one of the two.

    `event` is an event; of a select-join a tuple of each table, by name; of a tree pattern a document: a JSON value, or
    XML as a text. `position` names something that was published lately.
    """

    event: dict[str, Any] | list[Any] | str | UnsetType = UNSET
    position: Annotated[int, Meta(ge=1)] | Annotated[float, Meta(ge=1)] | UnsetType = UNSET
    """1.0 is an integer to JSON Schema."""


class ExplainedPredicate(Struct):
    """One condition, and what the event made of it."""

    predicate: str
    truth: bool | None
    values: dict[str, Any]
    call: Any | UnsetType = UNSET


class ShownExplanation(Struct):
    """Why an event matches, or doesn't."""

    subscription: int
    filter: str
    matched: bool
    truth: bool | None
    lease_ended: bool
    lacking: Annotated[
        int, Meta(description="How many conditions would have to come out differently")
    ]
    predicates: list[ExplainedPredicate]


class RefusedRecord(Struct):
    """A record that isn't taken."""

    index: int
    reason: str
    attribute: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class PublishedRecords(Struct):
    """What was accepted: it is on disk, and will be matched."""

    first: Annotated[int | None, Meta(description="The position of the first record")]
    last: int | None
    accepted: int
    refused: list[RefusedRecord]


class ShownTable(Struct):
    """A table: types of its columns by name, its key, and the columns that are bulky."""

    schema: dict[str, str]
    key: list[str]
    payload: list[str]


class ShownCatalog(Struct):
    """Tables by name, and along which columns they are joined: [table, table, [[column, column], …]]."""

    tables: dict[str, ShownTable]
    edges: list[tuple[str, str, list[tuple[str, str]]]]


class RecentEvents(Struct):
    """The newest of what was published."""

    events: list[RecentEvent]


class RecentNotification(Struct):
    """Something that somebody was told lately, as its feeds have it."""

    offset: Offset
    id: Annotated[str, Meta(description="Of its notifications, without the subscription")]
    kind: str
    told: Annotated[Any, Meta(description="What they were told: an event, a message or a document")]


class RecentNotifications(Struct):
    """The newest notifications."""

    notifications: list[RecentNotification]


class DeadLetter(Struct):
    """A record that could not be matched, and why."""

    reason: str
    raw: str
    kind: str | UnsetType = UNSET
    time: str | UnsetType = UNSET


class DeadLetters(Struct):
    """The newest dead letters."""

    dead_letters: list[DeadLetter]


class Position(Struct):
    """Where in a text: characters from `start` to before `end`; line and column from 1."""

    start: int
    end: int
    line: int
    column: int


class ShownProblem(Struct):
    """Problem details (RFC 9457), with what the language says of a text."""

    type: str
    title: str
    status: int
    detail: str
    position: Position | UnsetType = UNSET
    expected: str | UnsetType = UNSET
    found: str | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class Health(Struct):
    """Whether the service is there, or ready."""

    status: str
    reason: str | UnsetType = UNSET
