"""`search`: saved searches over titles, as people write them; most are a word, in whatever case.

    a word              title ILIKE '%word%'                                     one in two
    a word and a price  title ILIKE '%word%' AND price < 123.45                  one in five
    two words           title ILIKE '%word%' AND title ILIKE '%other%'           one in ten
    a prefix            starts_with(title, 'Word')                               one in ten
    an expression       regexp_matches(title, 'word(s|ed)? +[a-z]+o', 'i')       one in ten

A title has eight words of a vocabulary of 120,000, about 60 characters, popular ones more often; searches ask for any
word alike. Words are made of syllables, so that short ones are found inside long ones.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.draws import Draws, Integers, zipf
from benchmarks.workloads.workload import (
    Join,
    Workload,
    conjunction,
    count_matches,
    hundredths,
    quoted,
    rows_of,
    text,
)
from penstock.language import Schema

SCHEMA = {"title": "string", "price": "double"}
_SYLLABLES = pa.array([a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an")])
_WORDS = 120_000
_TITLE = 8  # words
_PRICES = 100_000  # cents
_SEED = 8
_ENDING = "(s|ed)? +[a-z]+o"

Drawn = tuple[pa.StringArray, dict[str, pa.Array]]


def search(subscriptions: int, events: int) -> Workload:
    """See the module."""
    words = _vocabulary()
    shares = np.array([share for share, _, _ in _KINDS.values()])
    kind = Draws(_SEED, 0).among(shares, subscriptions)
    parts: list[pa.StringArray] = []
    rules: dict[str, pa.Table] = {}
    for number, (name, (_, draw, _)) in enumerate(_KINDS.items()):
        filters, columns = draw(Draws(_SEED, 1, number), words, int((kind == number).sum()))
        parts.append(filters)
        rules[f"rules_{name}"] = pa.table(columns)
    place = np.empty(subscriptions, np.int64)
    place[np.argsort(kind, kind="stable")] = np.arange(subscriptions)
    query = count_matches({f"rules_{name}": sql for name, (_, _, sql) in _KINDS.items()})
    return Workload(
        name="search",
        schema=Schema.of(SCHEMA),
        rows=rows_of(pa.concat_arrays(parts).take(pa.array(place))),
        events=_events(words, events),
        join=lambda: Join(rules, query),
    )


def _vocabulary() -> pa.StringArray:
    """Words of two to five syllables, each once."""
    draws = Draws(_SEED, 3)
    count = 2 * _WORDS
    lengths = 2 + draws.among(np.array([1.0, 4.0, 4.0, 2.0]), count)
    columns = [
        pc.if_else(pa.array(lengths > n), _SYLLABLES.take(_any(draws, _SYLLABLES, count)), "")
        for n in range(5)
    ]
    return pc.unique(text(*columns)).slice(0, _WORDS)


def _events(words: pa.StringArray, count: int) -> pa.RecordBatch:
    draws = Draws(_SEED, 2)
    popular = zipf(len(words), 0.7)
    chosen = [words.take(pa.array(draws.among(popular, count))) for _ in range(_TITLE)]
    title = pc.binary_join_element_wise(*map(pc.utf8_capitalize, chosen), " ")
    price = pa.array(draws.integers(0, _PRICES, count) / 100)
    return pa.record_batch({"title": title, "price": price})


def _any(draws: Draws, of: pa.Array, count: int) -> pa.Array:
    numbers: Integers = draws.integers(0, len(of), count)
    return pa.array(numbers)


def _word(draws: Draws, words: pa.StringArray, count: int) -> Drawn:
    word = words.take(_any(draws, words, count))
    return text("title ILIKE '%", word, "%'"), {"word": word}


def _word_and_price(draws: Draws, words: pa.StringArray, count: int) -> Drawn:
    word = words.take(_any(draws, words, count))
    cents = draws.integers(0, _PRICES, count)
    filters = conjunction(text("title ILIKE '%", word, "%'"), text("price < ", hundredths(cents)))
    return filters, {"word": word, "price": pa.array(cents / 100)}


def _two_words(draws: Draws, words: pa.StringArray, count: int) -> Drawn:
    word, other = (words.take(_any(draws, words, count)) for _ in range(2))
    filters = conjunction(text("title ILIKE '%", word, "%'"), text("title ILIKE '%", other, "%'"))
    return filters, {"word": word, "other": other}


def _prefix(draws: Draws, words: pa.StringArray, count: int) -> Drawn:
    word = pc.utf8_capitalize(words.take(_any(draws, words, count)))
    return text("starts_with(title, ", quoted(word), ")"), {"word": word}


def _expression(draws: Draws, words: pa.StringArray, count: int) -> Drawn:
    pattern = text(words.take(_any(draws, words, count)), _ENDING)
    return text("regexp_matches(title, ", quoted(pattern), ", 'i')"), {"pattern": pattern}


_KINDS: dict[str, tuple[float, Callable[[Draws, pa.StringArray, int], Drawn], str]] = {
    "word": (0.5, _word, "contains(lower(e.title), r.word)"),
    "priced": (0.2, _word_and_price, "contains(lower(e.title), r.word) AND e.price < r.price"),
    "two": (0.1, _two_words, "contains(lower(e.title), r.word) AND contains(lower(e.title), r.other)"),
    "prefix": (0.1, _prefix, "starts_with(e.title, r.word)"),
    "expression": (0.1, _expression, "regexp_matches(e.title, r.pattern, 'i')"),
}  # fmt: skip
