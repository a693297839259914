"""Checks the rows of a bulk load: everything except what their filters say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools
from penstock.base.durations import quote_briefly
from penstock.base.errors import FilterError, RegistryError
from penstock.registry.details import metadata_error
from penstock.registry.incoming import Incoming
from penstock.registry.limits import (
    MAX_METADATA,
    MAX_SUBSCRIBER,
    filter_error,
    name_error,
    subscriber_error,
)
from penstock.registry.paces import pace_text

RowErrors = dict[int, FilterError]  # by row of the source, 0 the first


def row_errors(incoming: Incoming) -> RowErrors:
    """The first error of each row, apart from errors in what filters say."""
    names, filters = incoming.subscribers, incoming.filters
    errors: RowErrors = {}

    def add(bad: Bools, reason: Callable[[int], str]) -> None:
        for row in np.flatnonzero(bad).tolist():
            if row not in errors:
                errors[row] = FilterError(filters[row].as_py() or "", reason(row))

    if incoming.ids is not None:
        _add_key_errors("id", incoming.ids, add)
    if incoming.externals is not None:
        _add_key_errors("external id", incoming.externals, add)
    add(_mask(names.is_null()), lambda row: "the subscriber is null")
    add(_mask(filters.is_null()), lambda row: "the filter is null")
    add(_unfit(names), lambda row: subscriber_error(names[row].as_py()) or "refused")
    add(
        _mask(pc.match_substring(filters, "\0")),
        lambda row: filter_error(filters[row].as_py()) or "refused",
    )
    if incoming.externals is not None:
        found = incoming.externals
        add(_unfit(found), lambda row: name_error(found[row].as_py(), "external id") or "refused")
    if incoming.metadata is not None:
        texts = incoming.metadata
        suspect = np.asarray(pc.binary_length(texts)) > MAX_METADATA
        suspect |= _mask(pc.match_substring(texts, "\\u0000"))
        for row in np.flatnonzero(suspect).tolist():
            wrong = metadata_error(texts[row].as_py())
            if wrong is not None and row not in errors:
                errors[row] = FilterError(filters[row].as_py() or "", wrong)
    return errors


def settle_paces(incoming: Incoming, errors: RowErrors) -> Incoming:
    """The same rows, with paces in the form in which they are kept. Adds to `errors` the paces that can't be kept."""
    if incoming.paces is None:
        return incoming
    settled: list[str | None] = incoming.paces.to_pylist()
    for row in np.flatnonzero(_mask(incoming.paces.is_valid())).tolist():
        pace, text = settled[row], incoming.filters[row].as_py() or ""
        try:
            settled[row] = pace_text(pace or "", text)
        except RegistryError as error:
            errors.setdefault(row, FilterError(text, str(error)))
    return incoming.with_paces(pa.chunked_array([pa.array(settled, pa.string())]))


def _add_key_errors(
    what: str, keys: pa.ChunkedArray, add: Callable[[Bools, Callable[[int], str]], None]
) -> None:
    add(_mask(keys.is_null()), lambda row: f"the {what} is null")
    repeated = "the {} {} stands in an earlier row too"
    add(_repeated(keys), lambda row: repeated.format(what, _shown(keys[row])))


def _repeated(keys: pa.ChunkedArray) -> Bools:
    """Which rows have a key that an earlier row has too."""
    codes = pc.dictionary_encode(keys).combine_chunks().indices.fill_null(-1).to_numpy()
    found: Bools = np.ones(len(codes), np.bool_)
    found[np.unique(codes, return_index=True)[1]] = False
    found &= codes >= 0
    return found


def _unfit(names: pa.ChunkedArray) -> Bools:
    """Which names are suspect: perhaps empty, too long, or impossible to store."""
    too_long = np.asarray(pc.binary_length(names).fill_null(0)) > MAX_SUBSCRIBER
    unfit: Bools = too_long | _mask(pc.match_substring_regex(names, "^\\s*$|\\x00"))
    return unfit


def _shown(value: Any) -> str:
    found = value.as_py()
    return quote_briefly(found) if isinstance(found, str) else str(found)


def _mask(column: pa.ChunkedArray) -> Bools:
    return np.asarray(pc.fill_null(column, False), dtype=np.bool_)
