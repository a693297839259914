"""The parts of a service file: the log, retention, webhooks, TLS, limits, other sources. `settings` has the whole.

They are models like those of pipeline files (`pipeline.config_parts`), checked and worded in the same way.
"""

from typing import Annotated, Literal

from pydantic import Field

from penstock.delivery.feeds import Retention
from penstock.pipeline.config_parts import EventSourcePart, JoinsPart, OwnSchemaPart
from penstock.pipeline.config_values import Part, Settings, Text, check_with, make_from
from penstock.pipeline.sources import Source
from penstock.server.publishing import InboxLimits
from penstock.server.publishing.published import POSITION
from penstock.server.setting_values import Bytes, Length, ReadableFile
from penstock.server.web.http_settings import HttpLimits
from penstock.server.webhooks.webhook_delivery import WebhookRules

_OF_SPARK = "spark."


class FilesPart(Part):
    """Segments of JSON lines in the data folder, which Spark's file source reads."""

    format: Literal["files"] = "files"
    seal: Length = 0.25
    """how long a segment is written to before Spark may read it"""
    segment: Bytes = 64_000_000
    """what a segment holds at most"""


class KafkaPart(Part):
    """A topic of Kafka for each log: <topic>-events, <topic>-documents, <topic>-tables-<table>."""

    format: Literal["kafka"]
    servers: Text
    """host:port,host:port"""
    topic: Text = "penstock"
    """what the names of the topics begin with"""
    partitions: int = Field(default=2, ge=1)
    """of a topic that isn't there yet: the records of one producer are in one of them"""
    options: Settings = Field(default_factory=dict)
    """of the producer, and with the prefix spark. those of Spark's reader"""

    @property
    def producer_options(self) -> dict[str, str]:
        """The options of the producer."""
        return {k: v for k, v in self.options.items() if not k.startswith(_OF_SPARK)}

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of Spark's reader."""
        given = self.options.items()
        return {k.removeprefix(_OF_SPARK): v for k, v in given if k.startswith(_OF_SPARK)}


LogPart = Annotated[FilesPart | KafkaPart, Field(discriminator="format")]


class RetentionPart(Part):
    """How long feeds keep notifications. Who comes too late for one that was dropped is told so, with 410."""

    age: Annotated[Text, check_with(Retention)] = "7 days"
    """how old a notification may become"""
    size: Bytes = 4 * 1024**3
    """what all feeds together may take"""

    def make(self) -> Retention:
        return Retention(self.age, self.size)


class WebhooksPart(Part):
    """How notifications are posted to the webhooks of subscriptions."""

    private: bool | None = None
    """whether addresses may be posted to that only this machine or its network can reach; by default only if the
    service itself is reached by this machine alone"""
    in_flight: Annotated[int, Field(ge=1)] = WebhookRules.in_flight
    """requests at once, of all webhooks"""
    notifications: Annotated[int, Field(ge=1)] = WebhookRules.notifications
    """in one request"""
    timeout: Length = WebhookRules.timeout
    """of one request"""
    patience: Length = WebhookRules.patience
    """after which a webhook that takes nothing is set aside"""

    def make(self, local: bool) -> WebhookRules:
        return WebhookRules(
            notifications=self.notifications,
            in_flight=self.in_flight,
            timeout=self.timeout,
            patience=self.patience,
            private=local if self.private is None else self.private,
        )


class TlsPart(Part):
    """HTTPS."""

    certificate: ReadableFile
    """in PEM, with those above it"""
    key: ReadableFile
    """in PEM"""


class PublishedJoinsPart(JoinsPart):
    """How changes of tables are written. Which of two changes of a tuple is the later one, their order here says."""

    version: Text = POSITION
    """a column with a number that grows with each change of a tuple; by default the order of acceptance counts"""


class SourcesPart(Part):
    """What is matched besides what is published here."""

    events: Annotated[Source, make_from(EventSourcePart)] | None = None
    """events from elsewhere"""
    event_time: Text | None = None
    """their attribute that tells when an event happened"""
    event_id: Text | None = None
    """their attribute that tells which event it is"""
    tables: dict[str, Annotated[Source, make_from(OwnSchemaPart)]] = Field(default_factory=dict)
    """tables whose changes come from elsewhere: by the names of the catalogue"""
    documents: Annotated[Source, make_from(OwnSchemaPart)] | None = None
    """documents from elsewhere"""


class LimitsPart(Part):
    """What one request, one caller or one address may ask for."""

    body: Bytes = HttpLimits.body_bytes
    """of a request"""
    records: int = Field(default=HttpLimits.records, ge=1)
    """events, changes or documents of a request"""
    text: Bytes = HttpLimits.text_bytes
    """of a subscription"""
    subscriptions: int = Field(default=HttpLimits.subscriptions, ge=1)
    """of one subscriber"""
    requests: int = Field(default=int(HttpLimits.requests_per_second), ge=1)
    """a second, of a key or of an address without one"""
    burst: int = Field(default=HttpLimits.burst, ge=1)
    """at once"""
    connections: int = Field(default=HttpLimits.connections, ge=1)
    """of all together"""
    address_connections: int = Field(default=HttpLimits.connections_per_address, ge=1)
    """of one address"""
    queued: Bytes = InboxLimits.queued_bytes
    """what may wait to be written to the disk; more is answered with 503"""
    waiting: Bytes = InboxLimits.waiting_bytes
    """what may wait on the disk to be matched; more is answered with 503"""

    def make(self) -> HttpLimits:
        return HttpLimits(
            body_bytes=self.body,
            records=self.records,
            text_bytes=self.text,
            subscriptions=self.subscriptions,
            requests_per_second=self.requests,
            burst=self.burst,
            connections=self.connections,
            connections_per_address=self.address_connections,
        )

    def of_inbox(self) -> InboxLimits:
        return InboxLimits(queued_bytes=self.queued, waiting_bytes=self.waiting)
