"""The parts of settings about the network: names, links over NATS, and the broker whose client a service is."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from penstock.network.links.link import NETWORK, Link, Receiver, check_name
from penstock.network.links.nats_link import NatsLink, NatsPlace
from penstock.network.links.zenoh_link import ZenohLink, ZenohPlace
from penstock.network.network_client import NetworkClient
from penstock.pipeline.config_values import Part, Settings, Text, check_with

NetworkName = Annotated[Text, check_with(check_name)]
ZenohConfig = Annotated[dict[str, Any], Field(default_factory=dict)]


class NatsLinkPart(Part):
    """Links over a NATS server."""

    servers: Text
    """nats://host:4222, with commas between several"""
    options: Settings = Field(default_factory=dict)
    """user, password, token, user_credentials, nkeys_seed, tls_hostname"""

    def make(self) -> NatsPlace:
        return NatsPlace(tuple(one.strip() for one in self.servers.split(",")), self.options)


class NetworkPart(Part):
    """The broker whose client the service is."""

    broker: NetworkName
    """its name"""
    at: list[Text] = Field(default_factory=list)
    """where it listens, like tcp/broker.example.org:7447; not needed with NATS"""
    name: NetworkName = "service"
    """of this service: each client of a broker has its own, and keeps it"""
    network: NetworkName = NETWORK
    """brokers of one network only hear each other"""
    advertise: Text | None = None
    """a filter: events published here that it matches go into the network; TRUE is all; by default none do"""
    zenoh: ZenohConfig
    """Zenoh's own configuration: TLS, who we are"""
    nats: NatsLinkPart | None = None
    """links over NATS, instead of Zenoh"""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if not self.at and self.nats is None:
            raise ValueError(" needs at, where the broker listens, or nats")
        return self

    def open_client(self) -> NetworkClient:
        """A client of the broker. NetworkError if the link can't be opened."""

        def open_link(name: str, receiver: Receiver) -> Link:
            if self.nats is not None:
                return NatsLink(name, self.nats.make(), receiver, network=self.network)
            place = ZenohPlace(connect=self.at, mode="client", config=self.zenoh)
            return ZenohLink(name, place, receiver, network=self.network)

        return NetworkClient(open_link, self.broker, self.name)
