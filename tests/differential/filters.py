"""Random filters over the events of `events.py`, in every spelling the language allows.

One class, driven by a `random.Random`: a seeded one for volume, Hypothesis's own (`st.randoms`)
where a failing filter should be shrunk. Choices that make a filter longer come last, so that
shrinking goes towards the short ones.

What a filter says, the values in it and how it is spelt are drawn apart: texts that differ in
nothing but their spelling (redundant parentheses, white space, comments, the case of keywords)
mean the same.
"""

import random
import re
from decimal import Decimal
from typing import Any

from .events import ATTRIBUTES, DAY, POOLS, Attribute
from .expressions import Computed, Expressions

COMPARISONS = ["=", "<", "<=", ">", ">=", "<>", "!=", "=="]
CONTAINS = ["array_contains", "list_contains", "list_has", "array_has"]
SEARCHES = ["contains", "starts_with", "prefix", "ends_with", "suffix", *3 * ["regexp_matches"]]
OFFSETS = [
    (0, "Z"),
    (0, "+00:00"),
    (0, "+00"),
    (7200, "+02:00"),
    (-19800, "-05:30"),
    (50400, "+14"),
    (3600, "+0100"),
]
_PIECES = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\s+|[(),]|[^\s'\"(),]+")
_SPACES = [*5 * [" "], "  ", "\n", "\t", " \r\n "]
_GAPS = [*8 * [""], " ", "\n", "  "]
YEAR_1, YEAR_10000 = -719162 * DAY, 2932897 * DAY


class Plainly(random.Random):
    """For `spelling`: nothing that isn't needed."""

    def random(self) -> float:
        return 0.99

    def choice(self, seq: Any) -> Any:
        return seq[0]


class RandomFilters:
    """Writes filters that Penstock accepts, and DuckDB too, unless (rarely) it overflows."""

    def __init__(
        self,
        rng: random.Random,
        leaves: int = 8,
        literals: random.Random | None = None,
        spelling: random.Random | None = None,
    ) -> None:
        self.rng = rng
        self.leaves = leaves
        self.literals = literals or rng  # decides which values, `rng` decides all the rest
        self.spelling = spelling or rng  # decides what makes no difference
        self.expressions = Expressions(rng, self.literals)
        self.by_kind: dict[str, list[Attribute]] = {}
        for attribute in ATTRIBUTES:
            self.by_kind.setdefault(attribute.kind, []).append(attribute)

    # ---- structure

    @classmethod
    def family(cls, rng: random.Random, count: int) -> list[str]:
        """Filters of one shape: the same text but for the values of its literals."""
        seed = rng.getrandbits(64)
        return [cls(random.Random(seed), literals=rng).filter() for _ in range(count)]

    @classmethod
    def spellings(cls, rng: random.Random, count: int) -> list[str]:
        """One filter in several spellings, the plainest first."""
        seed = rng.getrandbits(64)
        ways = [Plainly(), *(random.Random(rng.getrandbits(64)) for _ in range(count - 1))]
        return [cls(random.Random(seed), spelling=way).filter() for way in ways]

    def filter(self) -> str:
        text = self.tree(self.rng.choice([1, 1, 1, 2, 2, 3, 4, self.leaves]))
        return self.pad(self.spaced(text))

    def tree(self, leaves: int) -> str:
        negated = self.rng.random() < 0.25
        if leaves <= 1:
            inner = self.wrapped(self.leaf())
        elif leaves > 2 and self.rng.random() < 0.3:
            inner = self.grouped(self.rng.choice(["AND", "OR"]), leaves)
        else:
            left = self.rng.randint(1, leaves - 1)
            word = self.word(self.rng.choice(["AND", "AND", "OR"]))
            inner = f"{self.operand(left)} {word} {self.operand(leaves - left)}"
            if not negated and self.rng.random() < 0.3:
                inner = self.wrapped(f"({inner})")
        return self.wrapped(f"{self.word('NOT')} ({inner})") if negated else inner

    def operand(self, leaves: int) -> str:
        # without parentheses half the time, so that the precedence of AND, OR and NOT is tested too
        text = self.tree(leaves)
        return self.wrapped(f"({text})") if self.rng.random() < 0.5 else text

    def grouped(self, word: str, leaves: int) -> str:
        """Leaves connected by one word: what stands in parentheses makes no difference."""
        parts = [self.wrapped(self.leaf()) for _ in range(leaves)]
        while len(parts) > 1:
            at = int(self.spelling.random() * (len(parts) - 1))
            joined = f"{parts[at]} {self.word(word)} {parts[at + 1]}"
            parts[at : at + 2] = [f"({joined})" if len(parts) > 2 else joined]
        return self.wrapped(f"({parts[0]})")

    def leaf(self) -> str:
        if self.rng.random() < 0.03:
            return self.word(self.rng.choice(["TRUE", "FALSE", "NULL"]))
        attribute = self.rng.choice(ATTRIBUTES)
        if self.rng.random() < 0.15:
            attribute = self.expressions.any()
        if self.rng.random() < 0.08 or attribute.kind == "struct":
            return self.null_test(attribute)
        if attribute.kind == "array":
            return self.contains(attribute)
        if attribute.kind == "boolean" and self.rng.random() < 0.6:
            return self.truth(attribute)
        if attribute.kind == "string" and self.rng.random() < 0.5:
            return self.rng.choice([self.like, self.like, self.search])(attribute)
        return self.rng.choice(
            [self.compare, self.compare, self.among, self.between, self.distinct, self.pair]
        )(attribute)

    # ---- predicates

    def compare(self, attribute: Attribute) -> str:
        name, literal = self.name(attribute), self.literal_or_null(attribute)
        operator = self.rng.choice(COMPARISONS)
        return self.rng.choice([f"{name} {operator} {literal}", f"{literal} {operator} {name}"])

    def pair(self, attribute: Attribute) -> str:
        other = self.name(self.comparable(attribute))
        return f"{self.name(attribute)} {self.rng.choice(COMPARISONS)} {other}"

    def comparable(self, attribute: Attribute) -> Attribute:
        """An attribute that this one can be compared with; itself, now and then."""
        if attribute.kind == "interval" or self.rng.random() < 0.1:
            return self.expressions.of(attribute.kind)
        if attribute.numeric:
            kinds = ["integer", "double", "decimal"]
        elif attribute.kind in ("date", "timestamp"):
            kinds = ["date", "timestamp"]
        else:
            kinds = [attribute.kind]
        return self.rng.choice([a for k in kinds for a in self.by_kind[k]])

    def among(self, attribute: Attribute) -> str:
        count = self.rng.choice([1, 2, 3, 3, 5, 12])
        literals = ", ".join(self.literal_or_null(attribute) for _ in range(count))
        return f"{self.name(attribute)} {self.negatable('IN')} ({literals})"

    def between(self, attribute: Attribute) -> str:
        """Literals as ends, or attributes of the same kind: DuckDB gives all three one type, so that beside a double
        large integers and decimals are no longer compared exactly."""
        if self.rng.random() < 0.75:
            low, high = self.literal_or_null(attribute), self.literal_or_null(attribute)
        else:
            low, high = (self.name(self.alike(attribute)) for _ in range(2))
        return f"{self.name(attribute)} {self.negatable('BETWEEN')} {low} {self.word('AND')} {high}"

    def alike(self, attribute: Attribute) -> Attribute:
        """An attribute of the same kind."""
        if attribute.kind not in self.by_kind or self.rng.random() < 0.1:
            return self.expressions.of(attribute.kind)
        return self.rng.choice(self.by_kind[attribute.kind])

    def distinct(self, attribute: Attribute) -> str:
        operator = self.rng.choice(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return f"{self.name(attribute)} {self.word(operator)} {self.literal_or_null(attribute)}"

    def null_test(self, attribute: Attribute) -> str:
        return f"{self.name(attribute)} {self.word(self.rng.choice(['IS NULL', 'IS NOT NULL']))}"

    def truth(self, attribute: Attribute) -> str:
        tests = [
            "",
            " IS TRUE",
            " IS FALSE",
            " IS NOT TRUE",
            " IS NOT FALSE",
            " = TRUE",
            " <> FALSE",
        ]
        return self.name(attribute) + self.word(self.rng.choice(tests))

    def contains(self, attribute: Attribute) -> str:
        assert attribute.element is not None
        element = Attribute((), attribute.element, attribute.pool, scale=4)
        function = self.word(self.rng.choice(CONTAINS))
        return f"{function}({self.name(attribute)}, {self.literal_or_null(element)})"

    def like(self, attribute: Attribute) -> str:
        pattern = self.pattern()
        operator = self.negatable(self.rng.choice(["LIKE", "ILIKE"]))
        if self.rng.random() < 0.7:
            return f"{self.name(attribute)} {operator} {self.wrapped(quote(pattern))}"
        escape = self.rng.choice(["\\", "#", "!", "a", "%", "_"])
        escaped = "".join(
            escape + c if self.rng.random() < 0.5 or c == escape else c for c in pattern
        )
        test = f"{self.name(attribute)} {operator} {self.wrapped(quote(escaped))}"
        return f"{test} {self.word('ESCAPE')} {quote(escape)}"

    def search(self, attribute: Attribute) -> str:
        """A function that looks for a text, or for a regular expression."""
        base = self.literals.choice(POOLS["string"])
        name, function = self.name(attribute), self.rng.choice(SEARCHES)
        first = self.literals.choice([0, 0, 1, 2])
        wanted = quote(self.literals.choice([base, base[first:], base[:-1], base.upper(), ""]))
        if function == "regexp_matches":
            wanted = quote(self.regexp(base))
            wanted += self.rng.choice(["", "", ", 'i'", ", 's'", ", 'is'", ", 'c'"])
        test = f"{self.word(function)}({name}, {wanted})"
        return f"{self.word('NOT')} {test}" if self.rng.random() < 0.3 else test

    def regexp(self, base: str) -> str:
        other = self.literals.choice(POOLS["string"])
        here, there = _literally(base), _literally(other)
        shapes = [
            here,
            f"^{here}",
            f"{here}$",
            f"{here}|{there}",
            f"({here})+{there}",
            f"{_literally(base[:1])}.*{_literally(base[-1:])}",
            f"{_literally(base[:-1])}.?",
            "[a-z]+",
            r"^\w*$",
            f"(?i){here}",
            "",
            ".",
        ]
        return self.rng.choice(shapes)

    def pattern(self) -> str:
        base = self.literals.choice(POOLS["string"])
        shapes = [
            base + "%",
            base,
            "%" + base,
            "%" + base + "%",
            base[:1] + "%" + base[1:],
            base[:-1] + "_",
        ]
        shapes += [
            "_" + base[1:],
            "%%",
            "",
            "_%",
            "%_",
            base + "%%" + base,
            base[:1] + "_%" + base[-1:],
        ]
        return self.rng.choice(shapes)

    # ---- spelling

    def word(self, text: str) -> str:
        return self.spelling.choice([text, text, text.lower(), text.title()])

    def wrapped(self, text: str) -> str:
        """With redundant parentheses, now and then."""
        while self.spelling.random() < 0.07:
            text = f"({text})"
        return text

    def spaced(self, text: str) -> str:
        """With other white space wherever there is some, and where there may be."""
        pieces = _PIECES.findall(text)
        for place, piece in enumerate(pieces):
            if piece.isspace():
                pieces[place] = self.spelling.choice(_SPACES)
            elif piece in "(,)":
                gap = self.spelling.choice(_GAPS)
                pieces[place] = piece + gap if piece in "(," else gap + piece
        return "".join(pieces)

    def negatable(self, operator: str) -> str:
        return self.word(operator if self.rng.random() < 0.6 else f"NOT {operator}")

    def pad(self, text: str) -> str:
        return self.spelling.choice(
            [text, text, text, f"  {text}\n", f"({text})", f"/* all */ {text}", f"{text} -- end"]
        )

    def name(self, attribute: Attribute) -> str:
        if isinstance(attribute, Computed):
            return self.wrapped(attribute.written)
        first, *steps = attribute.path
        text = self.part(first)
        for step in steps:
            text = f"{self.wrapped(text)}.{self.part(step)}"
        return self.wrapped(text)

    def part(self, name: str) -> str:
        if not name.isidentifier() or name == "order":
            return f'"{name}"'
        return self.rng.choice([name, name, name, name.upper(), name.lower(), f'"{name}"'])

    # ---- literals

    def literal_or_null(self, attribute: Attribute) -> str:
        return self.wrapped("NULL" if self.rng.random() < 0.03 else self.literal(attribute))

    def literal(self, attribute: Attribute) -> str:
        if attribute.numeric:
            return self.number(attribute)
        value = self.literals.choice(attribute.pool)
        match attribute.kind:
            case "boolean":
                return self.word("TRUE" if value else "FALSE")
            case "string":
                return quote(value)
            case "date":
                return self.date(value)
            case "interval":
                return f"{self.word('INTERVAL')} {quote(value)}"
            case _:
                return self.instant(value)

    def number(self, attribute: Attribute) -> str:
        kind = self.rng.choice(["own", "own", "integer", "decimal", "double"])
        if kind == "own":
            kind = attribute.kind
        value: Any = self.literals.choice(attribute.pool if kind == attribute.kind else POOLS[kind])
        match kind:
            case "integer":
                value += self.literals.choice([0, 0, 0, 1, -1])
                spellings = [
                    f"{value}",
                    f"{value}",
                    f"{value}.0",
                    f"{value:+}",
                    f"{value:_}",
                    f"{value}.",
                ]
                return self.rng.choice(spellings)
            case "decimal":
                step = Decimal(1).scaleb(-self.rng.choice([2, 4, 10])) * self.literals.choice(
                    [0, 0, 1, -1]
                )
                text = format(_shorten(Decimal(value) + step), "f")
                return (
                    self.rng.choice([text, text, text.replace("0.", ".", 1)])
                    if _bare(text)
                    else text
                )
            case _:
                return self.double(value)

    def double(self, value: float) -> str:
        if value != value:
            return "1.5e0"  # NaN has no literal
        if value in (float("inf"), float("-inf")):
            return "1.7976931348623157e308"  # nor has infinity
        text = repr(value)
        return text if "e" in text else text + "e0"

    def date(self, days: int) -> str:
        text = quote(iso_date(days))
        return self.rng.choice(
            [text, text, f"{self.word('DATE')} {text}", self.naive_instant(days * DAY)]
        )

    def instant(self, micros: int) -> str:
        spellings = [
            self.zoned_instant(micros),
            quote(iso_instant(micros, " ")),
            self.naive_instant(micros),
        ]
        if micros % DAY == 0:
            spellings += [quote(iso_date(micros // DAY)), f"DATE {quote(iso_date(micros // DAY))}"]
        return self.rng.choice(spellings)

    def naive_instant(self, micros: int) -> str:
        return f"{self.word('TIMESTAMP')} {quote(iso_instant(micros, self.rng.choice(' T')))}"

    def zoned_instant(self, micros: int) -> str:
        seconds, suffix = self.rng.choice(OFFSETS)
        local = micros + seconds * 1_000_000
        if not YEAR_1 <= local < YEAR_10000:
            local, suffix = micros, "Z"
        text = quote(iso_instant(local, self.rng.choice(" T")) + suffix)
        return self.rng.choice([text, f"{self.word('TIMESTAMPTZ')} {text}"])


def _literally(text: str) -> str:
    """A regular expression that finds a text."""
    return "".join("\\" + c if c in "\\.+*?()|[]{}^$" else c for c in text)


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def iso_date(days: int) -> str:
    """The calendar by hand (Hinnant's `civil_from_days`): `datetime.date` ends with year 9999."""
    z = days + 719468
    era, doe = divmod(z, 146097)
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return f"{yoe + era * 400 + (month <= 2):04}-{month:02}-{doy - (153 * mp + 2) // 5 + 1:02}"


def iso_instant(micros: int, separator: str) -> str:
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return iso_date(days) + separator + clock + (f".{fraction:06}".rstrip("0") if fraction else "")


def _bare(text: str) -> bool:
    """Whether the zero before the point can be left out."""
    return text.lstrip("-").startswith("0.")


def _shorten(value: Decimal) -> Decimal:
    """At most 38 digits: DuckDB reads a longer decimal literal as a double."""
    return value if len(value.as_tuple().digits) <= 37 else value.to_integral_value() // 100
