"""Operators for filters to call: their signatures only, nobody calls them here."""

from penstock import Schema
from penstock.language.signatures import Signature, Signatures
from penstock.language.types import Kind, Scalar, Struct, Type, Unusable

BOOLEAN, INTEGER, DOUBLE = Scalar(Kind.BOOLEAN), Scalar(Kind.INTEGER), Scalar(Kind.DOUBLE)
STRING, DATE, TIMESTAMP = Scalar(Kind.STRING), Scalar(Kind.DATE), Scalar(Kind.TIMESTAMP)
BINARY = Unusable("binary")
POINT = Struct((("lat", DOUBLE), ("lon", DOUBLE)))


def signature(
    name: str,
    parameters: tuple[Type | None, ...] = (),
    result: Scalar | None = None,
    binds: tuple[Scalar, ...] = (),
) -> Signature:
    return Signature(name, parameters, result, binds, f"scenes:{name}", 0.001, None, False)


OPERATORS = Signatures.of(
    [
        signature("in_area", (POINT, STRING), BOOLEAN),
        signature("crowd", (BINARY,), INTEGER),
        signature("label", (BINARY,), STRING),
        signature("near", (POINT, DOUBLE), BOOLEAN),
        signature("seen", (DATE, INTEGER), DOUBLE),
        signature("paid", (Scalar(Kind.DECIMAL, 8, 2),), BOOLEAN),
        signature("lit", (BOOLEAN, TIMESTAMP), BOOLEAN),
        signature("odd", (None,), BOOLEAN),
        signature("boats", (BINARY,), None, (INTEGER,)),
        signature("coastguard", (BINARY,), None, (INTEGER,)),
        signature("p", (), None, (INTEGER, INTEGER)),
        signature("weight", (BINARY,), None, (DOUBLE,)),
        signature("name", (BINARY,), None, (STRING,)),
        signature("taken", (BINARY,), None, (DATE,)),
        signature("sunny", (BINARY,), None, (BOOLEAN,)),
    ]
)
SCHEMA = Schema.of(
    {
        "image": "binary",
        "place": {"lat": "double", "lon": "double", "city": "string"},
        "a.b": "string",
        "price": "double",
        "volume": "bigint",
        "symbol": "string",
        "listed": "date",
        "time": "timestamp",
        "halted": "boolean",
        "tags": "array<string>",
    }
).with_operators(OPERATORS)
