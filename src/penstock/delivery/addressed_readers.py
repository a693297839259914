"""Takes lists of addresses apart, into the names of subscribers and the metadata of their subscriptions.

`registry.addresses` says what an address is. One event has many readers, and other events have the same ones, so each
address is taken apart once for a batch.
"""

import json

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StringType, StructField

from penstock.registry.addresses import SEPARATOR

METADATA = "metadata"
METADATA_LISTS = StructField(METADATA, ArrayType(MapType(StringType(), StringType())))
_ARROW_MAP = pa.map_(pa.string(), pa.string())


def name_lists(addresses: Column) -> Column:
    """The names in lists of addresses."""
    return F.transform(addresses, lambda one: F.split_part(one, F.lit(SEPARATOR), F.lit(1)))


def metadata_lists(addresses: Column) -> Column:
    """The metadata in lists of addresses; an empty map where there are none."""
    kind = "map<string,string>"
    nothing = F.create_map().cast(kind)

    def read(one: Column) -> Column:
        text = F.split_part(one, F.lit(SEPARATOR), F.lit(2))
        return F.coalesce(F.from_json(text, kind), nothing)

    return F.transform(addresses, read)


def take_apart(addresses: pa.ListArray) -> tuple[pa.ListArray, pa.ListArray]:
    """The same for Arrow's lists: names and metadata.

    >>> lists = pa.array([["alice\\0{\\"a\\":\\"b\\"}", "bob"], []])
    >>> names, metadata = take_apart(lists)
    >>> names.to_pylist(), metadata.to_pylist()
    ([['alice', 'bob'], []], [[[('a', 'b')], []], []])
    """
    found = pc.dictionary_encode(addresses.flatten())
    parts = [address.partition(SEPARATOR) for address in found.dictionary.to_pylist()]
    names = pa.array([name for name, _, _ in parts], pa.string())
    maps = [list(json.loads(text).items()) if text else [] for _, _, text in parts]
    metadata = pa.array(maps, _ARROW_MAP)
    starts = pc.subtract(addresses.offsets, addresses.offsets[0])
    return (
        pa.ListArray.from_arrays(starts, names.take(found.indices)),
        pa.ListArray.from_arrays(starts, metadata.take(found.indices)),
    )
