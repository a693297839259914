"""What every link does: one suite for Zenoh, for NATS, and for the one within a process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.servers import NoServer, free_port, nats
from tests.sizes import PATIENCE

from penstock.network.links.in_process_link import Switchboard
from penstock.network.links.link import Link, NetworkError, Receiver, check_name
from penstock.network.links.nats_link import NatsLink, NatsPlace
from penstock.network.links.zenoh_link import ZenohLink, ZenohPlace, check_config

Join = Callable[[str, Receiver], Link]


class Ear:
    """What has come in."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.frames: list[tuple[str, bytes]] = []
        self.alive: dict[str, bool] = {}
        self.receiver = Receiver(self._frame, self._lives)

    def _frame(self, sender: str, frame: bytes) -> None:
        with self.changed:
            self.frames.append((sender, frame))
            self.changed.notify_all()

    def _lives(self, name: str, lives: bool) -> None:
        with self.changed:
            self.alive[name] = lives
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), (self.frames, self.alive)


@contextmanager
def zenoh_links() -> Iterator[Join]:
    """The first listens, the others connect to it."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with ExitStack() as opened:
        joined: list[Link] = []

        def join(name: str, receiver: Receiver) -> Link:
            place = ZenohPlace(connect=[endpoint]) if joined else ZenohPlace(listen=[endpoint])
            joined.append(ZenohLink(name, place, receiver))
            opened.callback(joined[-1].close)
            return joined[-1]

        yield join


@contextmanager
def nats_links() -> Iterator[Join]:
    try:
        server = nats(jetstream=False)
        with server as running, ExitStack() as opened:

            def join(name: str, receiver: Receiver) -> Link:
                link = NatsLink(name, NatsPlace((running.url,)), receiver)
                opened.callback(link.close)
                return link

            yield join
    except NoServer as error:
        pytest.skip(str(error))


@contextmanager
def in_process_links() -> Iterator[Join]:
    yield Switchboard().join


@pytest.fixture(
    params=[
        pytest.param(zenoh_links, id="zenoh"),
        pytest.param(nats_links, id="nats", marks=pytest.mark.nats),
        pytest.param(in_process_links, id="in-process"),
    ]
)
def join(request: pytest.FixtureRequest) -> Iterator[Join]:
    with request.param() as join:
        yield join


def send_until(link: Link, name: str, frame: bytes, ear: Ear) -> None:
    """A link may drop what is sent before it knows the other."""
    deadline = time.monotonic() + PATIENCE
    while not any(one == frame for _, one in ear.frames):
        assert time.monotonic() < deadline
        link.send(name, frame)
        time.sleep(0.02)


def test_frames_reach_whom_they_are_for(join: Join) -> None:
    """With the sender's name, both ways, and nobody else gets them."""
    ears = {name: Ear() for name in ("b1", "b2", "~alice")}
    links = {name: join(name, ear.receiver) for name, ear in ears.items()}
    send_until(links["b1"], "b2", b"down", ears["b2"])
    send_until(links["b2"], "b1", b"up", ears["b1"])
    send_until(links["~alice"], "b2", b"client", ears["b2"])
    assert set(ears["b2"].frames) == {("b1", b"down"), ("~alice", b"client")}
    assert set(ears["b1"].frames) == {("b2", b"up")}
    assert ears["~alice"].frames == []


def test_many_frames_of_all_sizes(join: Join) -> None:
    """Bytes arrive as they were sent. On a busy machine some may be dropped: then they are sent again."""
    ears = Ear(), Ear()
    first, _ = join("b1", ears[0].receiver), join("b2", ears[1].receiver)
    send_until(first, "b2", b"hello", ears[1])
    sent = [n.to_bytes(2, "big") * (1 + n * 317 % 2500) for n in range(200)]
    for n, frame in enumerate(sent):
        first.send("b2", frame)
        if n % 20 == 19:
            send_until(first, "b2", frame, ears[1])
    for frame in sent:
        if ("b1", frame) not in ears[1].frames:
            send_until(first, "b2", frame, ears[1])
    assert {frame for _, frame in ears[1].frames} == {b"hello", *sent}


def test_a_frame_to_nobody_is_dropped(join: Join) -> None:
    """Nothing waits for somebody who isn't there."""
    join("b1", Ear().receiver).send("nobody", b"frame")


@pytest.mark.parametrize("name", ["", "a/b", "a b", "*", "a.b", "~", "é", "x" * 101])
def test_a_name_fits_into_keys(name: str) -> None:
    """A name that Zenoh or NATS would read as more than one word, or as a pattern, is refused."""
    with pytest.raises(NetworkError, match="can't be a name"):
        check_name(name)


# --- Zenoh --------------------------------------------------------------------------------------


def test_zenoh_says_who_is_alive() -> None:
    """Whoever joins or leaves is told of, also to those who come later."""
    with zenoh_links() as join:
        first, second, third = Ear(), Ear(), Ear()
        join("b1", first.receiver)
        leaving = join("b2", second.receiver)
        first.wait(lambda: first.alive.get("b2") is True)
        join("b3", third.receiver)
        third.wait(lambda: third.alive == {"b1": True, "b2": True})
        leaving.close()
        first.wait(lambda: first.alive == {"b2": False, "b3": True})


def test_zenoh_connects_to_one_who_comes_later() -> None:
    """A router whose neighbours aren't there yet starts, and finds them when they come."""
    ports = [free_port(), free_port()]
    ears = Ear(), Ear()
    with ExitStack() as opened:
        early = ZenohPlace(
            listen=[f"tcp/127.0.0.1:{ports[0]}"], connect=[f"tcp/127.0.0.1:{ports[1]}"]
        )
        first = ZenohLink("b1", early, ears[0].receiver)
        opened.callback(first.close)
        second = ZenohLink("b2", ZenohPlace(listen=[f"tcp/127.0.0.1:{ports[1]}"]), ears[1].receiver)
        opened.callback(second.close)
        send_until(first, "b2", b"late", ears[1])


def test_networks_on_one_zenoh_are_apart() -> None:
    """The same names in another network are others."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    ears = Ear(), Ear(), Ear()
    with ExitStack() as opened:
        first = ZenohLink("b1", ZenohPlace(listen=[endpoint]), ears[0].receiver, network="one")
        opened.callback(first.close)
        for ear, network in zip(ears[1:], ("one", "two"), strict=True):
            place = ZenohPlace(connect=[endpoint], mode="client")
            link = ZenohLink("b2", place, ear.receiver, network=network)
            opened.callback(link.close)
        send_until(first, "b2", b"mine", ears[1])
        assert ears[2].frames == []


def test_access_control_is_zenohs() -> None:
    """Its own configuration is passed through: a router that lets nobody put lets no frame in."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    closed = {
        "access_control": {
            "enabled": True,
            "default_permission": "allow",
            "rules": [
                {
                    "id": "no frames of b3",
                    "permission": "deny",
                    "flows": ["ingress"],
                    "messages": ["put"],
                    "key_exprs": ["penstock/penstock/links/b3/*"],
                }
            ],
            "subjects": [{"id": "all"}],
            "policies": [{"rules": ["no frames of b3"], "subjects": ["all"]}],
        }
    }
    ear = Ear()
    with ExitStack() as opened:
        first = ZenohLink("b1", ZenohPlace(listen=[endpoint], config=closed), ear.receiver)
        opened.callback(first.close)
        links = {}
        for name in ("b2", "b3"):
            links[name] = ZenohLink(name, ZenohPlace(connect=[endpoint]), Ear().receiver)
            opened.callback(links[name].close)
        ear.wait(lambda: ear.alive == {"b2": True, "b3": True})
        for _ in range(20):
            links["b3"].send("b1", b"denied")
        send_until(links["b2"], "b1", b"allowed", ear)
        assert {sender for sender, _ in ear.frames} == {"b2"}


def test_a_configuration_that_zenoh_refuses_says_where() -> None:
    """What it can't read is a NetworkError with the key."""
    with pytest.raises(NetworkError, match="transport/link/tx/lease"):
        check_config({"transport": {"link": {"tx": {"lease": "long"}}}})


def test_a_port_that_is_taken_is_said() -> None:
    """The endpoint is named."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    link = ZenohLink("b1", ZenohPlace(listen=[endpoint]), Ear().receiver)
    try:
        with pytest.raises(NetworkError, match=f"can't listen at {endpoint}"):
            ZenohLink("b2", ZenohPlace(listen=[endpoint]), Ear().receiver)
    finally:
        link.close()
