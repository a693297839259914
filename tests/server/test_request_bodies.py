"""Reading what is published: good records written anew, bad ones refused one by one with the reason."""

import json

import pytest

from penstock.language.types import Struct
from penstock.server.publishing.attribute_types import root_of
from penstock.server.publishing.cloud_events import CONTEXT
from penstock.server.publishing.record_shapes import RecordShape
from penstock.server.publishing.request_bodies import (
    BadRequest,
    BodyLimits,
    Reading,
    TooLarge,
    UnknownContent,
    read_records,
)

SCHEMA = {
    "symbol": "string",
    "price": "double",
    "size": "bigint",
    "open": "boolean",
    "day": "date",
    "at": "timestamp",
    "fee": "decimal(10,2)",
    "venue": {"country": "string", "floor": "int"},
    "tags": "array<string>",
    "legs": "array<struct<symbol: string, ratio: int>>",
    "attrs": "map<string, string>",
    "logo": "binary",
}
SHAPE = RecordShape(root_of(SCHEMA))
NOTHING = RecordShape(Struct(()))


def read(body: str | bytes, media: str = "application/json", **options) -> Reading:
    data = body.encode() if isinstance(body, str) else body
    return read_records(media, {}, data, SHAPE, **options)


def reasons(reading: Reading) -> list[tuple[int, str | None, str]]:
    return [(r.index, r.attribute, r.reason) for r in reading.refused]


GOOD = {
    "symbol": "GOOG",
    "price": 5.5,
    "size": -(2**63),
    "open": True,
    "day": "2026-01-31",
    "at": "2026-01-31T12:00:00Z",
    "fee": 12.5,
    "venue": {"country": "CH", "floor": 3},
    "tags": ["a", None],
    "legs": [{"symbol": "A", "ratio": 2}, None],
    "attrs": {"colour": "red"},
    "logo": "aGk=",
}


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", json.dumps(GOOD)),
        ("application/json; charset=UTF-8", "\n" + json.dumps([GOOD], indent=3)),
        ("application/vnd.market+json", json.dumps([GOOD, GOOD])),
        ("application/x-ndjson", json.dumps(GOOD) + "\r\n\r\n" + json.dumps(GOOD)),
        ("application/jsonl", "\ufeff" + json.dumps(GOOD)),
    ],
)
def test_records_are_written_anew(media, body):
    """Without spaces, in the schema's order, one on a line, with the values that came."""
    reading = read(body, media)
    assert not reading.refused
    for record in reading.records:
        assert json.loads(record) == GOOD | {"fee": 12.50}
        assert list(json.loads(record)) == list(SCHEMA)
        assert b"\n" not in record
        assert b'": ' not in record


@pytest.mark.parametrize(
    ("record", "attribute", "reason"),
    [
        ('{"prise": 5}', "prise", "the schema has no attribute 'prise'"),
        ('{"venue": {"county": "CH"}}', "venue.county", "venue has no attribute 'county'"),
        ('{"Price": 5}', "Price", "the schema has no attribute 'Price'"),
        ('{"_position": 5}', "_position", "names that begin with an underscore are the service's own"),
        ('{"price": "5"}', "price", "a number is expected, not the text '5'"),
        ('{"price": true}', "price", "a number is expected, not true"),
        ('{"size": 5.0}', "size", "an integer is expected, not the number 5.0"),
        ('{"size": 9223372036854775808}', "size", "the number 9223372036854775808 doesn't fit 64 bits"),
        ('{"open": 1}', "open", "true or false is expected, not the number 1"),
        ('{"symbol": 5}', "symbol", "a text is expected, not the number 5"),
        ('{"symbol": "a\\u0000b"}', "symbol", "has the character NUL, which not every database can hold"),
        ('{"day": "31.1.2026"}', "day", "a date like \"2026-01-31\" is expected, not the text '31.1.2026'"),
        ('{"at": "2026-01-31T12:00:00"}', "at", "a time with its zone like \"2026-01-31T12:00:00Z\" is expected, "
         "not the text '2026-01-31T12:00:00'"),
        ('{"fee": 123456789.5}', "fee", "the number 123456789.5 doesn't fit decimal(10,2)"),
        ('{"fee": 1.555}', "fee", "the number 1.555 doesn't fit decimal(10,2)"),
        ('{"tags": "a"}', "tags", "an array is expected, not the text 'a'"),
        ('{"tags": ["a", 5]}', "tags[1]", "a text is expected, not the number 5"),
        ('{"legs": [{"symbol": "a", "ratio": "b"}]}', "legs[0].ratio", "an integer is expected, not the text 'b'"),
        ('{"venue": []}', "venue", "an object is expected, not an array"),
        ('{"logo": "%%"}', "logo", "bytes in Base64 are expected, not the text '%%'"),
        ('{"price": 1, "price": 2}', "price", "stands there twice"),
        ('{"venue": {"floor": 1, "floor": 2}}', "floor", "stands there twice"),
        ('{"price": 1, "pric\\u0065": 2}', "price", "stands there twice"),
        ('{"price": NaN}', None, "not JSON: invalid character (byte 10); JSON has no NaN and no "
         "Infinity, leave the attribute out"),
        ('{"price": 1e999}', None, "not JSON: number out of range"),
        ('{"symbol": "\\ud800"}', None, "not JSON: half a surrogate pair in a text"),
        (b'{"symbol": "\xff"}', None, "not valid UTF-8"),
        ('{"price": 5', None, "not JSON: input data was truncated"),
        ('{"price": 5} {"price": 6}', None, "not JSON: trailing characters (byte 14)"),
        ("5", None, 'an object is expected, like {"price": 5}, not the number 5'),
        ("null", None, 'an object is expected, like {"price": 5}, not null'),
        ('{"x": ' + "[" * 100_000, None, "nests deeper than 16 levels"),
        ('{"x": ' + "[" * 30 + "]" * 30 + "}", None, "nests deeper than 16 levels"),
    ],
)  # fmt: skip
def test_a_bad_record_is_refused_with_the_reason(record, attribute, reason):
    """By itself, and among good ones on lines, where only it is refused."""
    data = record.encode() if isinstance(record, str) else record
    if not data.startswith((b"5", b"null")):
        assert reasons(read(data)) == [(0, attribute, reason)]
    good = json.dumps(GOOD).encode()
    reading = read(good + b"\n" + data + b"\n" + good, "application/x-ndjson")
    assert reasons(reading) == [(1, attribute, reason)]
    assert len(reading.records) == 2


def test_hints_say_what_was_meant():
    """A misspelt name, a number in quotes, a time without its zone."""
    bodies = ['{"prise": 5}', '{"price": "5"}', '{"at": "2026-01-31T12:00:00"}']
    hints = [read(body).refused[0].hint for body in bodies]
    assert hints == [
        "did you mean 'price'?",
        "write the number without quotes",
        "add the zone: Z for UTC, or as +02:00",
    ]


def test_zones_are_put_into_utc():
    """Spark knows no zones beyond 18 hours; out of the calendar is refused."""
    assert read('{"at": "2026-01-31T12:00:00+23:30"}').records == [b'{"at":"2026-01-30T12:30:00Z"}']
    assert read('{"at": "0001-01-01T00:00:00+02:00"}').refused


def test_a_body_that_is_no_list_of_records_is_refused_as_a_whole():
    """Empty, torn, too large, too many, of another kind."""
    for body in (b"", b"  \n", b'[{"price": 5}, {"price"', b"[" * 50_000):
        with pytest.raises(BadRequest):
            read(body)
    with pytest.raises(TooLarge, match="bytes"):
        read(b" " * 100 + b"{}", limits=BodyLimits(body=50))
    for body in (b"[" + b"{}," * 20 + b"{}]", b"[" + b"1," * 200 + b"1]"):
        with pytest.raises(TooLarge, match="at most 10 are taken"):
            read(body, limits=BodyLimits(records=10))
    for body in (b"{}\n" * 11, b"{}\n" * 500):
        with pytest.raises(TooLarge, match="at most 10 are taken"):
            read(body, "application/x-ndjson", limits=BodyLimits(records=10))
    assert (
        len(read(b"{}\n" * 10, "application/x-ndjson", limits=BodyLimits(records=10)).records) == 10
    )
    with pytest.raises(UnknownContent, match="x-ndjson"):
        read(b"price=5", "application/x-www-form-urlencoded")
    with pytest.raises(UnknownContent, match="UTF-8"):
        read(b"{}", "application/json; charset=latin-1")


def test_thousands_of_records_on_one_line_are_one_bad_line():
    """They aren't made before they are counted."""
    reading = read(b"{}" * 500, "application/x-ndjson", limits=BodyLimits(records=10))
    assert reasons(reading) == [(0, None, "not JSON: trailing characters (byte 3)")]


def test_a_record_that_is_too_long_is_refused_alone():
    """The others of its request can be taken."""
    long = '{"symbol": "' + "x" * 300 + '"}'
    reading = read(f'[{{"price":1}}, {long}]', limits=BodyLimits(record=200))
    assert len(reading.records) == 1
    assert reasons(reading) == [(1, None, "has 313 bytes: a record has at most 200")]


def test_every_record_is_judged_even_if_thousands_are_bad():
    """The good ones of a request with many bad ones are found, in order."""
    parts = [json.dumps({"prise" if n % 2 else "price": n}) for n in range(2000)]
    reading = read("[" + ",".join(parts) + "]")
    assert [r.index for r in reading.refused] == list(range(1, 2000, 2))
    assert [json.loads(r)["price"] for r in reading.records] == list(range(0, 2000, 2))


# --- CloudEvents --------------------------------------------------------------------------------

CE_SCHEMA = RecordShape(
    root_of({"price": "double", CONTEXT: {"type": "string", "time": "timestamp", "seq": "bigint"}})
)


def _event(**more):
    from cloudevents.core.v1.event import CloudEvent

    attributes = {
        "id": "1 € ü",
        "source": "/nyse",
        "type": "trade",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "subject": 'say "hi" 100%',
        "seq": "7",
        **more,
    }
    return CloudEvent(attributes, {"price": 5.5})


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
def test_cloud_events_of_the_official_package(mode):
    """The event is the data, and the context attributes beside it: the same in every mode."""
    from datetime import UTC, datetime

    from cloudevents.core.bindings import http
    from cloudevents.core.formats.json import JSONFormat

    event = _event(time=datetime(2026, 1, 31, 12, tzinfo=UTC))
    if mode == "binary":
        message = http.to_binary(event, JSONFormat())
    elif mode == "structured":
        message = http.to_structured(event, JSONFormat())
    else:
        message = http.to_structured(event, JSONFormat())
        batch = b"[" + message.body + b"," + message.body + b"]"
        message = http.HTTPMessage({"content-type": "application/cloudevents-batch+json"}, batch)
    headers = {name.lower(): value for name, value in message.headers.items()}
    media = headers["content-type"]
    declared = read_records(media, headers, message.body, CE_SCHEMA)
    assert not declared.refused
    expected = {"price": 5.5, CONTEXT: {"type": "trade", "time": "2026-01-31T12:00:00Z", "seq": 7}}
    assert [json.loads(r) for r in declared.records] == [expected] * (2 if mode == "batch" else 1)
    learned = read_records(media, headers, message.body, NOTHING, learn=True)
    context = {
        "id": "1 € ü",
        "source": "/nyse",
        "type": "trade",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "subject": 'say "hi" 100%',
        "time": "2026-01-31T12:00:00Z",
        "seq": "7",
    }
    assert [json.loads(r) for r in learned.records] == [{"price": 5.5, CONTEXT: context}] * len(
        declared.records
    )
    assert str(dict(dict(learned.wider.fields)[CONTEXT].fields)["time"]) == "timestamp"


_CE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.parametrize(
    ("envelope", "attribute"),
    [
        ({"id": None}, "id"),
        ({"type": ""}, "type"),
        ({"specversion": "0.3"}, "specversion"),
        ({"time": "yesterday"}, "time"),
        ({"time": "2026-01-31T12:00:00"}, "time"),
        ({"UPPER": "x"}, "UPPER"),
        ({"nested": {"a": 1}}, "nested"),
        ({"subject": 5}, "subject"),
        ({"subject": "a\nb"}, "subject"),
        ({"data": [1]}, "data"),
        ({"data": "text"}, "data"),
        ({"data": "<a/>", "datacontenttype": "application/xml"}, "data"),
        ({"data_base64": "%%%"}, "data_base64"),
        ({"data": {}, "data_base64": "e30="}, "data_base64"),
        ({"data": {"prise": 5}}, "prise"),
    ],
)
def test_a_bad_cloud_event_is_refused(envelope, attribute):
    """With the attribute that is to blame."""
    body = json.dumps(_CE | envelope).encode()
    reading = read_records("application/cloudevents+json", {}, body, CE_SCHEMA)
    assert [r.attribute for r in reading.refused] == [attribute]
    good = json.dumps(_CE | {"data": {"price": 1}}).encode()
    batch = b"[" + good + b"," + body + b"]"
    reading = read_records("application/cloudevents-batch+json", {}, batch, CE_SCHEMA)
    assert [(r.index, r.attribute) for r in reading.refused] == [(1, attribute)]
    assert len(reading.records) == 1


def test_cloud_events_in_other_clothes():
    """Base64 that is JSON, data that is absent or null, headers in quotes, attributes that stand there twice."""
    base64 = json.dumps(_CE | {"data_base64": "eyJwcmljZSI6IDV9"}).encode()
    media = "application/cloudevents+json"
    shape = RecordShape(root_of({"price": "double"}))
    assert read_records(media, {}, base64, shape).records == [b'{"price":5.0}']
    for envelope in (_CE, _CE | {"data": None}):
        assert read_records(media, {}, json.dumps(envelope).encode(), shape).records == [b"{}"]
    twice = json.dumps(_CE | {"data": {}})[:-1].encode() + b', "id": "2"}'
    assert read_records(media, {}, twice, shape).refused
    inside = json.dumps(_CE | {"data": {CONTEXT: {}}}).encode()
    assert read_records(media, {}, inside, CE_SCHEMA).refused[0].reason == "stands there twice"
    headers = {f"ce-{k}": v for k, v in _CE.items()} | {"ce-type": '"a \\"b\\""'}
    reading = read_records("application/json", headers, b'{"price": 5}', CE_SCHEMA)
    assert json.loads(reading.records[0])[CONTEXT] == {"type": 'a "b"'}
    headers["ce-type"] = "%C0%A0"
    assert (
        read_records("application/json", headers, b"{}", CE_SCHEMA).refused[0].attribute
        == "ce-type"
    )
    with pytest.raises(UnknownContent, match="as JSON"):
        read_records("application/cloudevents+avro", {}, b"{}", shape)


# --- changes and documents ----------------------------------------------------------------------


def test_changes_are_checked_against_the_table():
    """The key must be there, the operation known; what a change is beside the tuple may be left out."""
    from penstock.joins.catalog import Table
    from penstock.server.publishing.change_rows import change_shape

    shape = change_shape(Table({"Symbol": "string", "PER": "double"}, key="Symbol"))
    body = json.dumps(
        [
            {"Symbol": "A", "PER": 5, "op": "Update", "version": 3, "before": {"Symbol": "B"}},
            {"Symbol": "A", "op": "d"},
            {"PER": 5},
            {"Symbol": None},
            {"Symbol": "A", "op": "destroy"},
            {"Symbol": "A", "per": 5},
        ]
    ).encode()
    reading = read_records("application/json", {}, body, shape)
    assert [json.loads(r)["Symbol"] for r in reading.records] == ["A", "A"]
    found = [(r.index, r.attribute) for r in reading.refused]
    assert found == [(2, "Symbol"), (3, "Symbol"), (4, "op"), (5, "per")]


def test_documents_are_read_before_they_are_taken():
    """In whatever encoding they come; what is no document is refused with the place."""
    from penstock.server.publishing.document_bodies import read_document

    xml = '<?xml version="1.0" encoding="iso-8859-1"?><a>ü</a>'.encode("latin-1")
    log, reading = read_document("text/xml", xml, "n1")
    assert log == "documents/xml"
    assert json.loads(reading.records[0])["document"].endswith("<a>ü</a>")
    log, reading = read_document("application/json", b'{"a": [1, 2]}')
    assert log == "documents/json"
    assert json.loads(json.loads(reading.records[0])["document"]) == {"a": [1, 2]}
    for media, body in (("text/xml", b"<a>"), ("text/xml", b"\0<a/>"), ("application/json", b"{")):
        assert "document" in read_document(media, body)[1].refused[0].reason
    with pytest.raises(UnknownContent):
        read_document("text/html", b"<p>")
