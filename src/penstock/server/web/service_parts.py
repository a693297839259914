"""The parts of a service that the web side uses. `service.Service` has them; tests compose those that they need."""

from pathlib import Path
from typing import Protocol

from penstock.delivery.feeds import FeedStore
from penstock.registry import Subscriptions
from penstock.server.hub import Hub
from penstock.server.publishing import EventSchema, Inbox, Publisher
from penstock.server.sides.matching_state import Matching
from penstock.server.sides.network_side import NetworkSide
from penstock.server.web.api_keys import ApiKeys
from penstock.server.web.http_settings import HttpSettings
from penstock.server.web.live_reads import LiveReads
from penstock.server.webhooks.webhook_delivery import WebhookDelivery


class Placed(Protocol):
    """The settings that routes use."""

    @property
    def folder(self) -> Path: ...


class Parts(Protocol):
    """The parts of a service, as its routes use them."""

    @property
    def registry(self) -> Subscriptions: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def feeds(self) -> FeedStore: ...
    @property
    def hub(self) -> Hub: ...
    @property
    def matching(self) -> Matching: ...
    @property
    def network(self) -> NetworkSide | None: ...
    @property
    def keys(self) -> ApiKeys: ...
    @property
    def http(self) -> HttpSettings: ...
    @property
    def publisher(self) -> Publisher: ...
    @property
    def schema(self) -> EventSchema: ...
    @property
    def settings(self) -> Placed: ...
    @property
    def live_reads(self) -> LiveReads: ...
    @property
    def webhooks(self) -> WebhookDelivery: ...
