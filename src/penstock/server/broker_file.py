"""The settings of a broker, from a YAML file. All of them are checked before anything starts.

    name: b2
    rank: 1
    listen: [tcp/0.0.0.0:7447]
    neighbours:
      - {name: b1, rank: 0, at: tcp/first.example.org:7447}
    schema: {symbol: string, price: double}

The file is written and checked like that of a service (`settings`): all problems are reported at once, with hints.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema, model_validator

from penstock.base.errors import ConfigError, PenstockError, SchemaError
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.joins.routed_messages import routed_schema
from penstock.language.schema import Schema
from penstock.language.types import Struct
from penstock.network.broker_settings import Bounds, BrokerSettings, Place, Times
from penstock.network.host import HostLimits, OpenLink
from penstock.network.links.link import NETWORK, Link, Receiver
from penstock.network.links.nats_link import NatsLink
from penstock.network.links.zenoh_link import ZenohLink, ZenohPlace
from penstock.network.network_client import NetworkClient
from penstock.network.payload.node import PayloadLimits
from penstock.operators.define import Operators
from penstock.pipeline.config_values import OwnFolder, Part, Text, check_schema, check_with
from penstock.pipeline.config_words import problems_of
from penstock.pipeline.schema_texts import read_schema
from penstock.server.network_parts import NatsLinkPart, NetworkName, ZenohConfig
from penstock.server.setting_values import Bytes, Length, Tables

PORT = 7447
_TIMES, _BOUNDS, _PAYLOADS = Times(), Bounds(), PayloadLimits()
_EVERYWHERE = ("0.0.0.0", "[::]")


class BrokerFileError(ConfigError):
    """A broker description has problems; the error lists all of them."""

    where = "broker description"


def _check_events(schema: Any) -> Any:
    if schema is not None:
        check_schema(schema)
    return schema


class NeighbourPart(Part):
    """A broker that may be this one's parent."""

    name: NetworkName
    rank: int = Field(0, ge=0)
    at: Text | None = None
    """where it listens, like tcp/first.example.org:7447; not needed with NATS"""


class TimesPart(Part):
    """How long a broker waits for what."""

    repeat: Length = _TIMES.repeat
    """t1: what a neighbour hasn't acknowledged by then is sent again"""
    silence: Length = _TIMES.silence
    """t2: a neighbour that isn't heard for so long has failed"""
    beat: Length = _TIMES.beat
    """something is sent to a neighbour at least that often"""
    forget: Length = _TIMES.forget
    """t3: a broker that is lost for so long isn't waited for any longer"""
    retry: Length = _TIMES.retry
    """how long a parent has to answer before the next one is tried"""
    longest_retry: Length = _TIMES.longest_retry
    """the same after many attempts"""

    def make(self) -> Times:
        return Times(**self.model_dump())


class BoundsPart(Part):
    """What a broker holds at most."""

    outbox: Bytes = _BOUNDS.outbox_bytes
    """events of its clients that aren't everywhere yet; more are refused"""
    under_way: int = Field(default=_BOUNDS.events_under_way, ge=1)
    """events of its clients that are sent and not yet everywhere; more wait"""
    frame: Bytes = _BOUNDS.frame_bytes
    """of what is sent to a neighbour at once"""
    window: int = Field(default=_BOUNDS.window, ge=1)
    """messages to a neighbour that aren't acknowledged; more wait"""
    mail: Bytes = HostLimits().mail_bytes
    """for one client that doesn't take it; of more, the oldest goes"""

    def make(self) -> Bounds:
        return Bounds(
            outbox_bytes=self.outbox,
            events_under_way=self.under_way,
            message_bytes=self.frame,
            frame_bytes=self.frame,
            window=self.window,
        )


class PayloadPart(Part):
    """Attributes that cross each link once."""

    attributes: list[Text | list[Text]] = Field(min_length=1)
    """which; those that change together as a list of their own: [logo, [title, body]]"""
    repository: Bytes = _PAYLOADS.repository_bytes
    """contents that the broker remembers"""
    directory: Bytes = _PAYLOADS.directory_bytes
    """which neighbour has had which of them; 24 bytes each"""
    patience: Length = _PAYLOADS.patience
    """how long a broker that is asked for a content has to answer"""

    def groups(self) -> tuple[tuple[str, ...], ...]:
        return tuple((one,) if isinstance(one, str) else tuple(one) for one in self.attributes)

    def make(self) -> PayloadLimits:
        return PayloadLimits(self.directory, self.repository, self.patience)


class BrokerFile(Part):
    """What a broker file says, checked."""

    name: NetworkName
    """of this broker: each in the network has its own, and keeps it"""
    rank: int = Field(0, ge=0)
    """its place: a broker's parent has a lower rank, or the same and a name that sorts before"""
    network: NetworkName = NETWORK
    """brokers of one network only hear each other"""
    data: OwnFolder | None = None
    """the folder in which everything is kept; by default broker-NAME"""
    listen: list[Text] = Field(default_factory=lambda: [f"tcp/127.0.0.1:{PORT}"])
    """where neighbours and clients connect to: Zenoh's endpoints, like tcp/0.0.0.0:7447 or tls/0.0.0.0:7447"""
    neighbours: list[NeighbourPart] = Field(default_factory=list)
    """parents to try, the best first; a broker without any is the root"""
    schema_: Annotated[
        Any, AfterValidator(_check_events), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(alias="schema", default=None)
    """of the events: {symbol: string, price: double}; the same at all brokers"""
    catalog: Tables | None = None
    """of tables whose changes are published, for select-joins: as a service has it, or "@FILE"; the same everywhere"""
    routing: Literal["merging", "covering", "flooding"] = "merging"
    """merging: what neighbours are told is covered and merged; flooding: everything is told"""
    threshold: float = Field(0.0, ge=0.0, le=1.0)
    """how much more than its parts a merger may let through: 0 is nothing, 0.1 a tenth"""
    advertisements: bool = True
    """whether subscriptions only go where they meet an advertisement"""
    operators: Annotated[Text, check_with(lambda name: Operators.of(name).portable())] | None = None
    """those that filters may call: a module, or module:NAME"""
    payloads: PayloadPart | None = None
    """attributes that filters don't test and that repeat, like pictures and long texts: they cross each link once"""
    times: TimesPart = TimesPart()
    limits: BoundsPart = BoundsPart()
    zenoh: ZenohConfig
    """Zenoh's own configuration, laid over ours: transport, access_control …"""
    nats: NatsLinkPart | None = None
    """links over NATS, instead of Zenoh"""

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        lacking = [one.name for one in self.neighbours if one.at is None]
        if lacking and self.nats is None:
            raise ValueError(f"neighbours: {lacking[0]} needs at, where it listens")
        if self.nats is not None and self.zenoh:
            raise ValueError("zenoh and nats: links go over one of them")
        if self.schema_ is None and self.catalog is None:
            raise ValueError("missing key 'schema', of the events; or 'catalog', of tables")
        try:
            self.settings()
        except PenstockError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def folder(self) -> Path:
        return Path(self.data or f"broker-{self.name}").absolute()

    def settings(self) -> BrokerSettings:
        """The settings of the broker itself."""
        return BrokerSettings(
            Place(self.rank, self.name),
            self._schema(),
            parents=tuple(Place(one.rank, one.name) for one in self.neighbours),
            routing=self.routing,
            threshold=self.threshold,
            advertisements=self.advertisements,
            times=self.times.make(),
            bounds=self.limits.make(),
            operators=None if self.operators is None else Operators.of(self.operators),
            payloads=() if self.payloads is None else self.payloads.groups(),
            payload_limits=_PAYLOADS if self.payloads is None else self.payloads.make(),
        )

    def _schema(self) -> Schema:
        """The schema of the events and of messages about tables."""
        events = () if self.schema_ is None else read_schema(check_schema(self.schema_)).root.fields
        messages = () if self.catalog is None else routed_schema(self.catalog).root.fields
        both = {name for name, _ in events} & {name for name, _ in messages}
        if both:
            raise SchemaError(
                f"schema: {', '.join(sorted(both))}: messages about tables have this, too; name it otherwise"
            )
        return Schema(Struct((*events, *messages)))

    def host_limits(self) -> HostLimits:
        return HostLimits(self.limits.mail)

    def open_link(self) -> OpenLink:
        """A function that opens the broker's link to the network."""
        if self.nats is not None:
            place = self.nats.make()
            return lambda receiver: NatsLink(self.name, place, receiver, network=self.network)
        found = ZenohPlace(
            self.listen, [one.at for one in self.neighbours if one.at], "router", self.zenoh
        )
        return lambda receiver: ZenohLink(self.name, found, receiver, network=self.network)

    def open_client(self, client: str) -> NetworkClient:
        """A client of the broker, which must be running."""

        def open_link(name: str, receiver: Receiver) -> Link:
            if self.nats is not None:
                return NatsLink(name, self.nats.make(), receiver, network=self.network)
            here = [_reachable(one) for one in self.listen]
            place = ZenohPlace(connect=here, mode="client", config=self.zenoh)
            return ZenohLink(name, place, receiver, network=self.network)

        return NetworkClient(open_link, self.name, client)

    @property
    def summary(self) -> str:
        """The broker in a few words."""
        where = "NATS" if self.nats is not None else ", ".join(self.listen)
        parents = ", ".join(one.name for one in self.neighbours)
        return f"broker {self.name} of {self.network} at {where}, " + (
            f"under {parents}" if parents else "a root"
        )


_KNOWN_KEYS = {
    "": BrokerFile.known_keys(),
    "neighbours": NeighbourPart.known_keys(),
    "nats": NatsLinkPart.known_keys(),
    "times": TimesPart.known_keys(),
    "limits": BoundsPart.known_keys(),
}


def read_broker_file(path: str | Path) -> BrokerFile:
    """Read and check a broker file. Raises BrokerFileError, which lists everything that is wrong."""
    try:
        value = read_yaml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BrokerFileError([f"{path}: {error.strerror or error}"]) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise BrokerFileError([f"{path} is not YAML that describes a broker: {error}"]) from error
    return parse_broker({} if value is None else value)


def parse_broker(value: Any) -> BrokerFile:
    """Check a broker description as it comes from YAML or JSON.

    >>> parse_broker({"nam": "b1", "schema": "price double", "routing": "mergin", "name": "b 1"})
    Traceback (most recent call last):
    penstock.server.broker_file.BrokerFileError: 3 problems in the broker description
      - unknown key 'nam': did you mean 'name'?
      - 'b 1' can't be a name in the network: give letters, digits, - and _
      - routing 'mergin': did you mean 'merging'?
    """
    try:
        return BrokerFile.model_validate(value)
    except ValidationError as error:
        problems = problems_of(error, _KNOWN_KEYS, "a broker description")
        raise BrokerFileError(problems) from None


def broker_schema() -> dict[str, Any]:
    """The JSON Schema of a broker file, by which an editor completes and checks one."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    found = {"$schema": dialect, **BrokerFile.model_json_schema()}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def _reachable(endpoint: str) -> str:
    """The address at which processes of this machine find an endpoint.

    >>> _reachable("tcp/0.0.0.0:7447")
    'tcp/127.0.0.1:7447'
    """
    for everywhere in _EVERYWHERE:
        endpoint = endpoint.replace(f"/{everywhere}:", "/127.0.0.1:")
    return endpoint
