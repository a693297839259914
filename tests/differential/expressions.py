"""Random expressions over the events of `events.py`: what filters compute.

An expression that DuckDB may stop a query with (an integer that overflows, a remainder by zero)
is written with a plus sign before its parenthesis: that changes nothing, and `oracle.py` makes
TRY of it, which gives NULL as Penstock does.
"""

import random
from dataclasses import dataclass

from .events import POOLS, Attribute

# Not the year: that of a timestamp before the year 1 is another in DuckDB, with a zone and without.
_PARTS = ["month", "day", "hour", "minute", "second", "millisecond", "microsecond"]
_PARTS += ["quarter", "week", "dow", "isodow", "doy"]
_INTERVALS = [
    "1 hour",
    "-1 hour",
    "1 day",
    "2 days 3 hours",
    "0 seconds",
    "1 microsecond",
    "90 minutes",
    "18262 days",
    "-25567 days",
    "1 year",
    "1 month",
]
_SUMS = ["+", "-"]


@dataclass(frozen=True)
class Computed(Attribute):
    """What an expression gives, as an attribute that a filter can name: by its text."""

    written: str = ""


class Expressions:
    """Writes expressions. `rng` decides what, `literals` which values."""

    def __init__(self, rng: random.Random, literals: random.Random) -> None:
        self.rng, self.literals = rng, literals
        self._makers = {
            "integer": self._integer,
            "double": self._double,
            "decimal": self._decimal,
            "string": self._string,
            "boolean": self._boolean,
            "date": self._date,
            "timestamp": self._timestamp,
            "interval": self._interval,
        }

    def any(self) -> Computed:
        kinds = [*3 * ["integer", "double", "decimal"], *2 * ["string", "timestamp"]]
        return self.of(self.rng.choice([*kinds, "boolean", "date", "interval"]))

    def of(self, kind: str) -> Computed:
        pool = tuple(_INTERVALS if kind == "interval" else POOLS[kind])
        return Computed((), kind, pool, scale=4, written=self._makers[kind]())

    def pick(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def name(self, names: str) -> str:
        return self.rng.choice(names.split())

    def constant(self, *pool: object) -> str:
        return str(self.literals.choice(pool))

    def integer(self, depth: int = 1) -> str:
        names = "i1 i2 i32 i16 i8 MiXed o.x"
        return self._integer(depth - 1) if depth and self.rng.random() < 0.3 else self.name(names)

    def _integer(self, depth: int = 1) -> str:
        a, b = self.integer(depth), self.integer(depth)
        small = self.constant(2, 3, -7, 10, 1000)
        return self.pick(
            f"+({a} {self.pick('+', '-', '*')} {b})",
            f"+({a} {self.pick('+', '-', '*')} {small})",
            f"+({small} {self.pick('+', '-', '*')} {a})",
            f"+({a} {self.pick('%', '//')} {b})",
            f"+({a} {self.pick('%', '//')} {small})",
            f"+(-{a})",
            f"+(abs({a}))",
            f"round({a})",
            f"+(round({a}, {self.constant(1, 0, -1, -3, -18, -19)}))",
            f"coalesce({a}, {b}, {small})",
            f"length({self.text()})",
            f"length({self.name('li ls lb lat')})",
            f"date_part('{self.rng.choice(_PARTS)}', {self.name('at1 at2 naive on1 on2')})",
            f"extract({self.rng.choice(_PARTS)} FROM {self.name('at1 on1')})",
            f"{self.name('hour month day minute')}({self.name('at1 on2')})",
            f"{self.pick('year(on1)', 'extract(year FROM on2)')}",
            f"+({self.name('on1 on2')} - {self.name('on1 on2')})",
        )

    def number(self, depth: int = 1) -> str:
        """Any number; a double or something to be divided makes it one."""
        if depth and self.rng.random() < 0.3:
            return self._double(depth - 1)
        return self.name("d1 d2 d1 d2 f32 o.y.w")

    def _double(self, depth: int = 1) -> str:
        a, b = self.number(depth), self.number(depth)
        other = self.pick(self.name("i1 i8 c5 c18 d1"), self.constant(2, 0.5, "1e0", -3, 0))
        return self.pick(
            f"{a} {self.pick('+', '-', '*', '/', '%')} {b}",
            f"{a} {self.pick('+', '-', '*', '/')} {other}",
            f"({other} {self.pick('+', '-', '*', '/')} {a})",
            f"{a} + {b} * {self.number(0)} - {other}",
            f"({a} - {b}) / {self.number(0)}",
            f"-{self.name('d1 d2 f32')}",
            f"abs({a})",
            f"round({a})",
            f"round({a}, {self.constant(0, 1, 2, 5, -1, -3)})",
            f"{self.pick('floor', 'ceil')}({self.pick(a, self.name('i1 d1 d2'))})",
            f"coalesce({a}, {other})",
            f"{self.name('i1 i16 c5 c18')} / {self.pick(self.name('i2 c5'), other)}",
            f"date_part('epoch', {self.name('at1 naive on1')})",
        )

    def _decimal(self) -> str:
        a, b = self.name("c5 c18 c5 c18 c38"), self.name("c5 c18")
        constant = self.constant("2.5", "0.01", "-1.25", "7", "100", "0.5")
        digits = self.constant(0, 1, 2, 3, 9, -1, -3)
        return self.pick(
            f"+({a} {self.rng.choice(_SUMS)} {b})",
            f"+({a} {self.rng.choice(_SUMS)} {constant})",
            f"+({constant} {self.rng.choice(_SUMS)} {b})",
            f"+({b} {self.rng.choice(_SUMS)} {self.name('i1 i8 i32')})",
            f"+({self.name('i1 i8 i32')} * {self.constant('0.5', '2.25', '-0.1')})",
            f"+(c5 * {self.pick('c5', constant)})",
            f"+(c38 * {self.name('c5 c18 c38')})",
            f"+({self.name('i1 i8')} * c5)",
            f"+({b} % {self.pick('c5', '2.5', '0.03')})",
            f"-{a}",
            f"abs({a})",
            f"round({a}, {digits})",
            f"round({a})",
            f"{self.pick('floor', 'ceil')}({a})",
            f"+(coalesce({a}, {self.pick(b, constant, 'i8')}))",
            f"+(round({b}, 1) + c5 * {self.constant('0.5', '2')})",
        )

    def text(self) -> str:
        return self.pick("s1", "s2", '"order"', "o.y.z")

    def _string(self) -> str:
        a, b = self.text(), self.text()
        return self.pick(
            f"lower({a})",
            f"upper({a})",
            f"coalesce({a}, {self.pick(b, quoted(self.literals.choice(POOLS['string'])))})",
            f"lower(coalesce({a}, {b}))",
            f"upper(lower({a}))",
        )

    def _boolean(self) -> str:
        return self.pick("coalesce(b1, b2)", "coalesce(b1, FALSE)", "coalesce(NULL, b2, TRUE)")

    def _date(self) -> str:
        days = self.constant(1, 7, 365, 18262, 0)
        return self.pick(
            f"+({self.name('on1 on2 o.y.on')} {self.rng.choice(_SUMS)} {days})",
            "coalesce(on1, on2)",
            "coalesce(on1, '2020-01-01')",
        )

    def _timestamp(self) -> str:
        interval = f"INTERVAL '{self.literals.choice(_INTERVALS)}'"
        written = self.pick(interval, interval, "INTERVAL 3 HOUR", "INTERVAL '5' MINUTE")
        return self.pick(
            f"+({self.name('at1 at2 naive')} {self.rng.choice(_SUMS)} {written})",
            f"coalesce({self.name('at1 at2')}, {self.name('at2 naive on1')})",
            "coalesce(at1, '2020-01-01 12:00:00')",
        )

    def _interval(self) -> str:
        return f"+({self.name('at1 at2 naive on1')} - {self.name('at1 at2 naive')})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
