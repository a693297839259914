"""Filters with a mistake in them: a random filter with a word or two dropped, doubled, moved or changed."""

import random
import re

_WORDS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[\w.]+|<>|<=|>=|!=|==|\s+|.", re.DOTALL)
_OTHERS = [
    "AND",
    "OR",
    "NOT",
    "(",
    ")",
    ",",
    "=",
    "<",
    ">=",
    "<>",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NULL",
]
_OTHERS += [
    "TRUE",
    "-",
    "+",
    "*",
    "/",
    "%",
    "||",
    "::",
    ".",
    "'a'",
    "''",
    "5",
    "-1",
    "2.5",
    "1e3",
    ";",
    "[",
    "]",
]
_OTHERS += [
    "i1",
    "s1",
    "b1",
    "d1",
    "c38",
    "on1",
    "at1",
    "ls",
    "o",
    "o.x",
    '"odd name"',
    "DATE",
    "TIMESTAMP",
]
_OTHERS += [
    "ESCAPE",
    "DISTINCT",
    "FROM",
    "ISNULL",
    "UNKNOWN",
    "ANY",
    "ALL",
    "SELECT",
    "CASE",
    "CAST",
    "AS",
]
_OTHERS += [
    "array_contains",
    "INTERVAL",
    "EXISTS",
    "--",
    "/*",
    "*/",
    "$",
    "?",
    ":",
    "@",
    "#",
    "~",
    "!",
    "^",
    "&",
    "|",
]
_OTHERS += [
    "ILIKE",
    "GLOB",
    "SIMILAR TO",
    "COLLATE",
    "AT TIME ZONE 'UTC'",
    "SYMMETRIC",
    "0x1F",
    "1_000",
    "1e",
    ".5",
    "5.",
]


def mutated(rng: random.Random, text: str) -> str:
    """The text with one to three mistakes."""
    words = [w for w in _WORDS.findall(text) if not w.isspace()]
    for _ in range(rng.choice([1, 1, 2, 3])):
        if not words:
            break
        place = rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                del words[place]
            case 1:
                words.insert(place, words[place])
            case 2:
                words.insert(place, rng.choice(_OTHERS))
            case 3:
                words[place] = rng.choice(_OTHERS)
            case _:
                other = rng.randrange(len(words))
                words[place], words[other] = words[other], words[place]
    return " ".join(words)
