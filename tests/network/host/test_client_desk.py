"""What clients ask, as a broker's requests, and back."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.network import client_desk
from penstock.network.batch_bytes import write_batch
from penstock.network.broker_steps import (
    Advertise,
    Answer,
    Deliver,
    Publish,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from penstock.network.client_desk import ClientDesk
from penstock.network.client_frames import (
    AdvertiseThat,
    Ask,
    LeaveForGood,
    PublishEvents,
    Reply,
    SubscribeTo,
    UnsubscribeFrom,
    Wish,
    read_events,
)
from penstock.network.host_store import (
    ADVERTISEMENT,
    SUBSCRIPTION,
    ClientText,
    ForgetClient,
    ForgetMail,
    ForgetText,
    Mail,
    split_ids,
)

SCHEMA = pa.schema({"n": pa.int64()})
LIFE, NEXT_LIFE = b"life one", b"life two"


def desk(*texts: ClientText) -> ClientDesk:
    return ClientDesk(SCHEMA, texts, [])


def ask(desk: ClientDesk, number: int, wish: Wish, client: str = "~a", life: bytes = LIFE) -> list:
    return [turn for _, turn in desk.ask(client, Ask(life, number, wish))]


def identity(*numbers: int) -> bytes:
    return b"".join(n.to_bytes(16, "big") for n in numbers)


def events(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n} for n in numbers], SCHEMA)


def delivery(pairs: list[tuple[int, int]], *numbers: int) -> Deliver:
    """Events with these numbers as ids; pairs of row and subscription."""
    rows, subscriptions = np.array(pairs, np.int64).reshape(-1, 2).T
    return Deliver(identity(*numbers), events(*numbers), rows, subscriptions)


def test_a_subscription_is_kept_and_answered():
    """It gets a number of the broker's, is stored before it is answered, and the answer goes to whoever asked."""
    one = desk()
    text, request = ask(one, 7, SubscribeTo(3, "n > 5"))
    assert text == ClientText(1, SUBSCRIPTION, "~a", 3, "n > 5")
    assert request == Subscribe(1, 1, "n > 5")
    assert one.answer(Answer(1)) == [("~a", Reply(LIFE, 7))]


def test_what_is_asked_again_is_done_once():
    """While it waits, nothing happens; afterwards the same answer comes again; a new life asks anew."""
    one = desk()
    ask(one, 1, SubscribeTo(3, "n > 5"))
    assert ask(one, 1, SubscribeTo(3, "n > 5")) == []
    one.answer(Answer(1))
    assert ask(one, 1, SubscribeTo(3, "n > 5")) == [Reply(LIFE, 1)]
    assert ask(one, 1, SubscribeTo(3, "n > 5"), life=NEXT_LIFE) == [Subscribe(2, 1, "n > 5")]


def test_a_refused_subscription_leaves_no_trace():
    """Its text goes, and the reason reaches the client."""
    one = desk()
    ask(one, 1, SubscribeTo(3, "m > 5"))
    turns = one.answer(Answer(1, "unknown attribute 'm'"))
    assert turns == [
        ("~a", ForgetText(SUBSCRIPTION, 1)),
        ("~a", Reply(LIFE, 1, "unknown attribute 'm'")),
    ]
    assert one.texts == []
    assert one.deliver(delivery([(0, 1)], 9)) == []


def test_another_text_replaces_the_first_when_it_is_settled():
    """The old one is taken back after the answer, so that nothing is missed in between."""
    one = desk(ClientText(4, SUBSCRIPTION, "~a", 3, "n > 5"))
    text, request = ask(one, 1, SubscribeTo(3, "n > 7"))
    assert request == Subscribe(1, 5, "n > 7")
    both = one.deliver(delivery([(0, 4), (0, 5)], 9))
    assert isinstance(both[0], Mail)
    assert np.frombuffer(both[0].batch.subscriptions, np.int64).tolist() == [3, 3]
    turns = [turn for _, turn in one.answer(Answer(1))]
    assert turns == [ForgetText(SUBSCRIPTION, 4), Unsubscribe(2, 4), Reply(LIFE, 1)]
    assert one.texts == [text]


def test_a_replacement_that_is_refused_leaves_the_first():
    """The text before holds on."""
    before = ClientText(4, SUBSCRIPTION, "~a", 3, "n > 5")
    one = desk(before)
    ask(one, 1, SubscribeTo(3, "m > 7"))
    one.answer(Answer(1, "no"))
    assert one.texts == [before]
    assert len(one.deliver(delivery([(0, 4)], 9))) == 1


def test_unsubscribing_what_is_not_there_is_answered():
    """As after an unsubscription whose answer was lost with the broker."""
    assert ask(desk(), 1, UnsubscribeFrom(3)) == [Reply(LIFE, 1)]


def test_numbers_are_not_used_twice():
    """What is unsubscribed doesn't give its number to another."""
    one = desk(ClientText(4, SUBSCRIPTION, "~a", 3, "n > 5"))
    assert ask(one, 1, UnsubscribeFrom(3)) == [ForgetText(SUBSCRIPTION, 4), Unsubscribe(1, 4)]
    assert ask(one, 2, SubscribeTo(3, "n > 5"))[1] == Subscribe(2, 5, "n > 5")
    assert ask(one, 3, AdvertiseThat(3, "TRUE"))[1] == Advertise(3, 1, "TRUE")


def test_a_client_that_leaves_for_good_is_answered_when_all_is_taken_back():
    """What is another's stays."""
    one = desk(
        ClientText(4, SUBSCRIPTION, "~a", 3, "n > 5"),
        ClientText(5, SUBSCRIPTION, "~b", 3, "n > 5"),
        ClientText(2, ADVERTISEMENT, "~a", 1, "TRUE"),
    )
    assert ask(one, 1, LeaveForGood()) == [
        ForgetText(SUBSCRIPTION, 4),
        Unsubscribe(1, 4),
        ForgetText(ADVERTISEMENT, 2),
        Withdraw(2, 2),
        ForgetClient("~a", 0),
    ]
    assert one.answer(Answer(2)) == []
    assert one.answer(Answer(1)) == [("~a", Reply(LIFE, 1))]
    assert [text.client for text in one.texts] == ["~b"]
    assert one.deliver(delivery([(0, 4)], 11)) == []
    assert ask(one, 2, LeaveForGood()) == [ForgetClient("~a", 0), Reply(LIFE, 2)]


def test_publications_that_come_together_go_together():
    """The broker gets one batch; each client gets its answer."""
    one = desk()
    for client, n in (("~a", 1), ("~b", 2)):
        wish = PublishEvents(identity(n), write_batch(events(n)))
        assert ask(one, 1, wish, client) == []
    ((_, request),) = one.publish()
    assert isinstance(request, Publish)
    assert request.ids == identity(1, 2)
    assert request.events.to_pylist() == [{"n": 1}, {"n": 2}]
    assert one.answer(Answer(request.request)) == [("~a", Reply(LIFE, 1)), ("~b", Reply(LIFE, 1))]
    assert one.publish() == []


def test_publications_that_are_refused_together_are_tried_alone():
    """One that isn't advertised doesn't take the others with it."""
    one = desk()
    for client, n in (("~a", 1), ("~b", 2)):
        ask(one, 1, PublishEvents(identity(n), write_batch(events(n))), client)
    ((_, request),) = one.publish()
    alone = one.answer(Answer(request.request, "not advertised"))
    assert [turn.ids for _, turn in alone] == [identity(1), identity(2)]
    refused = one.answer(Answer(alone[0][1].request, "not advertised"))
    assert refused == [("~a", Reply(LIFE, 1, "not advertised"))]
    assert one.answer(Answer(alone[1][1].request)) == [("~b", Reply(LIFE, 1))]


@pytest.mark.parametrize(
    ("ids", "batch"),
    [
        (identity(1), b"nonsense"),
        (identity(1), b""),
        (identity(1, 2), write_batch(events(1))),
        (identity(1), write_batch(events(1))[:-9]),
    ],
)
def test_events_that_cannot_be_read_are_refused(ids: bytes, batch: bytes):
    """With the reason, and the broker never sees them."""
    one = desk()
    (reply,) = ask(one, 1, PublishEvents(ids, batch))
    assert isinstance(reply, Reply)
    assert reply.error is not None
    assert one.publish() == []


def test_mail_has_what_is_for_the_client():
    """One batch for each client, each event once, with the client's own numbers of subscriptions."""
    texts = [
        ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0"),
        ClientText(2, SUBSCRIPTION, "~b", 40, "n > 1"),
        ClientText(3, SUBSCRIPTION, "~a", 50, "n > 2"),
    ]
    pairs = [(0, 1), (2, 1), (2, 2), (2, 3), (1, 2)]
    first, second = desk(*texts).deliver(delivery(pairs, 11, 12, 13))
    assert isinstance(first, Mail)
    assert isinstance(second, Mail)
    assert (first.client, second.client) == ("~a", "~b")
    assert split_ids(first.batch.ids) == [identity(11), identity(13)]
    found = read_events(first.batch.events, first.batch.ids, SCHEMA)
    assert found.to_pylist() == [{"n": 11}, {"n": 13}]
    assert np.frombuffer(first.batch.rows, np.int64).tolist() == [0, 1, 1]
    assert np.frombuffer(first.batch.subscriptions, np.int64).tolist() == [30, 30, 50]
    assert np.frombuffer(second.batch.subscriptions, np.int64).tolist() == [40, 40]


def test_an_event_that_comes_twice_in_one_delivery_is_sent_once():
    """As when messages that were sent again arrive together with the first ones."""
    one = desk(ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0"))
    pairs = [(0, 1), (1, 1), (2, 1), (3, 1)]
    (mail,) = one.deliver(delivery(pairs, 11, 12, 11, 12))
    assert isinstance(mail, Mail)
    assert split_ids(mail.batch.ids) == [identity(11), identity(12)]
    assert np.frombuffer(mail.batch.rows, np.int64).tolist() == [0, 1]
    assert one.deliver(delivery([(0, 1)], 12)) == []


TEXTS = [
    ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0"),
    ClientText(2, SUBSCRIPTION, "~b", 40, "n > 1"),
    ClientText(3, SUBSCRIPTION, "~a", 50, "n > 2"),
]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.just("restart"), st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(1, 3))))
        ),
        max_size=6,
    )
)
def test_each_client_gets_each_event_once_whatever_comes_again(
    steps: list[str | list[tuple[int, set[int]]]],
):
    """Within a delivery, in a later one, after a restart; with all subscriptions that the first copy was for."""
    one, sent = desk(*TEXTS), list[tuple[str, int, list[bytes]]]()
    seen: set[tuple[str, bytes]] = set()
    for step in steps:
        if isinstance(step, str):
            one = ClientDesk(SCHEMA, TEXTS, sent)
            continue
        wanted = {
            n: sorted(mine) for n, mine in reversed(step)
        }  # an event is matched as it was before
        pairs = [(row, mine) for row, (n, _) in enumerate(step) for mine in wanted[n]]
        for mail in one.deliver(delivery(pairs, *(n for n, _ in step))):
            assert isinstance(mail, Mail)
            batch, ids = mail.batch, split_ids(mail.batch.ids)
            assert not seen & {(mail.client, id_) for id_ in ids}
            seen |= {(mail.client, id_) for id_ in ids}
            sent.append((mail.client, batch.number, ids))
            rows = np.frombuffer(batch.rows, np.int64).tolist()
            own = np.frombuffer(batch.subscriptions, np.int64).tolist()
            found = {(ids[row], subscription) for row, subscription in zip(rows, own, strict=True)}
            assert len(found) == len(own)
            assert found == {
                (identity(n), text.own)
                for n, mine in wanted.items()
                for text in TEXTS
                if text.client == mail.client and text.number in mine and identity(n) in ids
            }
        for n, mine in wanted.items():
            for number in mine:
                assert (TEXTS[number - 1].client, identity(n)) in seen


def test_repeats_are_dropped_also_after_a_restart():
    """By the event's id, within a window whose old end is forgotten."""
    text = ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0")
    one = desk(text)
    (mail,) = one.deliver(delivery([(0, 1), (1, 1)], 11, 12))
    assert one.deliver(delivery([(0, 1), (1, 1)], 12, 11)) == []
    (more,) = one.deliver(delivery([(0, 1), (1, 1)], 12, 13))
    assert split_ids(more.batch.ids) == [identity(13)]
    recent = [("~a", one.batch.number, split_ids(one.batch.ids)) for one in (mail, more)]
    again = ClientDesk(SCHEMA, [text], recent)
    assert again.deliver(delivery([(0, 1)], 11)) == []
    (next_,) = again.deliver(delivery([(0, 1)], 14))
    assert next_.batch.number == 3


def test_the_window_of_repeats_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Old ids go, from memory and from the store."""
    monkeypatch.setattr(client_desk, "_REPEATS", 10)
    one = desk(ClientText(1, SUBSCRIPTION, "~a", 30, "n > 0"))
    forgotten = [
        change
        for n in range(100)
        for change in one.deliver(delivery([(0, 1)], n))
        if isinstance(change, ForgetMail)
    ]
    assert forgotten
    assert all(change.recent for change in forgotten)
    assert one.deliver(delivery([(0, 1)], 99)) == []
    assert len(one.deliver(delivery([(0, 1)], 0))) == 1
