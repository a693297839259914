"""Keys back to values: the constant from which an ordered key was made (see `literals`)."""

import datetime
import struct
from decimal import Decimal, localcontext
from typing import Any

from penstock.base.labels import Key
from penstock.language.types import Kind, Scalar

_INT64_MAX = 2**63 - 1
_ORDINAL_1970 = 719_163
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def key_value(key: Key, type_: Scalar) -> Any | None:
    """The value that has a key; None if Python has no such value.

    >>> key_value(4617315517961601024, Scalar(Kind.DOUBLE)), key_value(b"GOOG", Scalar(Kind.STRING))
    (5.0, 'GOOG')
    """
    try:
        if isinstance(key, bytes):
            if type_.is_wide:
                return _decimal(int.from_bytes(key, "big") - (1 << 127), type_.scale)
            return key.decode()
        match type_.kind:
            case Kind.BOOLEAN:
                return bool(key)
            case Kind.DOUBLE:
                return key_double(key)
            case Kind.DECIMAL:
                return _decimal(key, type_.scale)
            case Kind.DATE:
                return datetime.date.fromordinal(key + _ORDINAL_1970)
            case Kind.TIMESTAMP:
                return _EPOCH + datetime.timedelta(microseconds=key)
    except (OverflowError, ValueError):  # outside the years 1 to 9999; not UTF-8
        return None
    return key


def key_double(key: int) -> float:
    """The double that has a key: the inverse of `double_key`."""
    bits = key if key >= 0 else key ^ _INT64_MAX
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def _decimal(scaled: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return Decimal(scaled).scaleb(-scale)
