"""What a broker keeps over its own death."""

from pathlib import Path

import pytest

from penstock.network.broker_steps import DropEvents, KeepEvents, KeepKnown, Kept
from penstock.network.client_frames import MailBatch, MailFrame, Take, read_told
from penstock.network.host_store import (
    SUBSCRIPTION,
    ClientText,
    ForgetMail,
    ForgetText,
    HostStore,
    Mail,
    split_ids,
)
from penstock.network.links.link import NetworkError
from penstock.network.mail_delivery import MailDelivery

TEXT = ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0")


def batch(number: int, size: int = 10) -> MailBatch:
    return MailBatch(number, number.to_bytes(16, "big"), b"e" * size, b"rows", b"subs")


def test_what_is_written_is_there_after_a_restart(tmp_path: Path):
    """Texts, the outbox, known brokers, mail, and how often it was started."""
    store = HostStore(tmp_path)
    assert store.count_start() == 1
    store.write([TEXT, KeepEvents(5, b"i" * 16, b"five"), KeepEvents(6, b"j" * 16, b"six")])
    store.write([DropEvents(5), KeepKnown(("b1", "b2"), True), Mail("~a", batch(1))])
    store.close()
    store = HostStore(tmp_path)
    assert store.count_start() == 2
    assert store.texts() == [TEXT]
    assert store.kept() == (Kept(6, b"j" * 16, b"six"),)
    assert store.known() == (("b1", "b2"), True)
    assert store.mail_after("~a", 0, 10, 100) == [batch(1)]
    assert list(store.recent()) == [("~a", 1, split_ids(batch(1).ids))]
    store.write([ForgetText(SUBSCRIPTION, 1), ForgetMail("~a", 1)])
    assert store.texts() == []
    assert store.mail_after("~a", 0, 10, 100) == []
    assert list(store.recent())
    store.close()


def test_a_transaction_is_whole(tmp_path: Path):
    """If a change of it fails, none of it is there."""
    store = HostStore(tmp_path)
    store.write([Mail("~a", batch(1))])
    with pytest.raises(Exception, match="UNIQUE"):
        store.write([TEXT, Mail("~a", batch(1))])
    assert store.texts() == []
    store.close()


def test_one_process_has_it(tmp_path: Path):
    """A second broker in the same folder is refused, with what to do."""
    store = HostStore(tmp_path)
    with pytest.raises(NetworkError, match="another broker runs in"):
        HostStore(tmp_path)
    store.close()
    HostStore(tmp_path).close()


class Sent:
    """What a client was sent."""

    def __init__(self, store: HostStore, most: int = 1 << 20) -> None:
        self.frames: list[MailFrame] = []
        self.delivery = MailDelivery(store, most, self._send)

    def _send(self, client: str, frame: bytes) -> None:
        told = read_told(frame)
        assert isinstance(told, MailFrame)
        self.frames.append(told)

    def numbers(self) -> list[int]:
        self.delivery.push()
        found = [batch.number for frame in self.frames for batch in frame.batches]
        self.frames = []
        return found


def store_mail(store: HostStore, sent: Sent, *numbers: int, size: int = 10) -> None:
    mail = [Mail("~a", batch(number, size)) for number in numbers]
    store.write(mail)
    for one in mail:
        sent.delivery.note_stored(one)


def test_mail_goes_to_who_is_there(tmp_path: Path):
    """Nothing before the client takes; then what is there, and what comes; nothing after it has gone."""
    store = HostStore(tmp_path)
    sent = Sent(store)
    store_mail(store, sent, 1, 2)
    assert sent.numbers() == []
    sent.delivery.take("~a", Take(b"life", 0, 0, again=True))
    assert sent.numbers() == [1, 2]
    assert sent.numbers() == []
    store_mail(store, sent, 3)
    assert sent.numbers() == [3]
    sent.delivery.leave("~a")
    store_mail(store, sent, 4)
    assert sent.numbers() == []
    sent.delivery.take("~a", Take(b"other", 3, 3))
    assert sent.numbers() == [4]
    store.close()


def test_mail_that_was_lost_is_sent_again(tmp_path: Path):
    """When the client says that nothing comes, from where it is."""
    store = HostStore(tmp_path)
    sent = Sent(store)
    store_mail(store, sent, 1, 2, 3)
    sent.delivery.take("~a", Take(b"life", 0, 0))
    assert sent.numbers() == [1, 2, 3]
    sent.delivery.take("~a", Take(b"life", 1, 1))
    assert sent.numbers() == []
    sent.delivery.take("~a", Take(b"life", 1, 1, again=True))
    assert sent.numbers() == [2, 3]
    store.close()


def test_mail_that_is_done_with_goes(tmp_path: Path):
    """And not before."""
    store = HostStore(tmp_path)
    sent = Sent(store)
    store_mail(store, sent, 1, 2, 3)
    assert sent.delivery.take("~a", Take(b"life", 3, 0)) is None
    assert sent.delivery.take("~a", Take(b"life", 3, 2)) == ForgetMail("~a", 2)
    assert sent.delivery.figures()["~a"]["batches"] == 1
    store.close()


def test_what_is_under_way_is_bounded(tmp_path: Path):
    """A client that reads slowly isn't sent everything."""
    store = HostStore(tmp_path)
    sent = Sent(store)
    store_mail(store, sent, *range(1, 201))
    sent.delivery.take("~a", Take(b"life", 0, 0))
    assert sent.numbers() == list(range(1, 65))
    sent.delivery.take("~a", Take(b"life", 10, 0))
    assert sent.numbers() == list(range(65, 75))
    store.close()


def test_mail_that_nobody_takes_is_bounded(tmp_path: Path):
    """The oldest goes, and the client is told how many events it has missed."""
    store = HostStore(tmp_path)
    sent = Sent(store, most=1_000)
    store_mail(store, sent, *range(1, 12), size=100)
    (change,) = sent.delivery.over_the_bound()
    store.write([change])
    sent.delivery.take("~a", Take(b"life", 0, 0))
    sent.delivery.push()
    (frame,) = sent.frames
    assert frame.dropped == frame.batches[0].number - 1 > 0
    assert frame.batches[-1].number == 11
    store.close()


def test_whoever_misses_mail_is_told(tmp_path: Path):
    """The newest stays, however large, since it says how many events are gone; a broker that starts again knows it."""
    store = HostStore(tmp_path)
    sent = Sent(store, most=100)
    store_mail(store, sent, 1, size=500)
    assert sent.delivery.over_the_bound() == []
    store_mail(store, sent, 2, 3, size=500)
    store.write(sent.delivery.over_the_bound())
    store_mail(store, sent, 4, size=500)
    store.write(sent.delivery.over_the_bound())
    store.close()
    store = HostStore(tmp_path)
    sent = Sent(store, most=100)
    sent.delivery.take("~a", Take(b"life", 0, 0))
    sent.delivery.push()
    (frame,) = sent.frames
    assert ([one.number for one in frame.batches], frame.after, frame.dropped) == ([4], 0, 3)
    store.close()
