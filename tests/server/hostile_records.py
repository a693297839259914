"""Records of all sorts, drawn from a seed: good ones in odd spellings, nearly good ones, and what attackers send."""

import json
import random

NAMES = [
    "symbol",
    "price",
    "size",
    "open",
    "day",
    "at",
    "fee",
    "venue",
    "tags",
    "legs",
    "attrs",
    "logo",
]
_TEXTS = [
    "", "GOOG", "ü€😀", "a\"b\\c/d", "line\nbreak\r\t", "\u2028\u2029", "\x7f\x80\ufeff", "null", "NaN", "\x01",
    "{\"price\":", "'", "a,b:c", "\uffff", "x" * 300,
]  # fmt: skip
_NUMBERS = [
    "0", "-0", "-0.0", "1", "5.0", "1e2", "1E-7", "1.7976931348623157e308", "5e-324", "1e-400", "1e309", "-1e999",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "0.1", "123456789012345678901234567890", "3.0000000000000000000000000000001", "12.50", "99999999.99", "1e7",
    "1.555",
    "01", "+1", ".5", "5.", "0x10", "NaN", "Infinity", "-Infinity", "1_000", "1" * 400, "0." + "0" * 400 + "1",
]  # fmt: skip
_TIMES = [
    "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789+02:00", "2026-02-30T12:00:00Z", "2026-01-31 12:00:00Z",
    "2026-01-31", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z",
    "1582-10-10T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "2026-01-31T24:00:00Z", "2026-12-31T23:59:60Z", "2026-01-31T12:00Z",
    "0000-01-01T00:00:00Z",
    "2026-01-31t12:00:00z", "1969-12-31T23:59:59.999999Z", "1582-10-10", "0001-01-01", "9999-12-31", "12:00:00", "now",
]  # fmt: skip
_ESCAPES = [
    r"\ud800",
    r"\udc00\ud800",
    r"\u0000",
    r"\ud83d\ude00",
    r"\/",
    r"\x41",
    r"\u00e9",
    r"\u000a",
    r"\U0041",
]


class Drawer:
    """Draws texts of records."""

    def __init__(self, seed: int, names: list[str] = NAMES) -> None:
        self.draw = random.Random(seed)
        self.names = names

    def record(self) -> bytes:
        """Mostly an object; now and then with some bytes changed."""
        data = self._object(self.names, 0).encode("utf-8", "surrogatepass")
        while data and self.draw.random() < 0.12:
            at = self.draw.randrange(len(data))
            change = self.draw.choice(
                [
                    b"",
                    b"\0",
                    b"\xff",
                    b"\xed\xa0\x80",
                    b'"',
                    b"}",
                    b",",
                    b"\n",
                    b"{}",
                    b"[",
                    b" ",
                    b"\x0b",
                ]
            )
            data = data[:at] + change + data[at + self.draw.randrange(2) :]
        return data

    def _object(self, names: list[str], depth: int) -> str:
        chosen = [self.draw.choice(names) for _ in range(self.draw.randrange(4))]
        if self.draw.random() < 0.95:
            chosen = list(dict.fromkeys(chosen))
        inner = [
            f"{self._space()}{self._name(n)}{self._space()}:{self._value(n, depth)}" for n in chosen
        ]
        return "{" + ",".join(inner) + self._space() + "}"

    def _name(self, name: str) -> str:
        if self.draw.random() < 0.02:
            name = self.draw.choice(
                [name.upper(), "_" + name, "", "odd name", "a.b", "é", "x\0y", "`", "cloudevent"]
            )
        return self._quoted(name)

    def _value(self, name: str, depth: int) -> str:
        space = self._space()
        if self.draw.random() < 0.06:
            name = self.draw.choice(self.names)  # a value of another type
        if self.draw.random() < 0.06:
            return space + self.draw.choice(
                ["null", "true", "[]", "{}", "[[[]]]", "[" * 40 + "]" * 40]
            )
        match name:
            case "symbol":
                return space + self._text()
            case "price" | "fee":
                return space + self._number()
            case "size":
                return space + self.draw.choice(
                    [str(self.draw.randrange(-(2**63), 2**63)), self._number()]
                )
            case "open":
                return space + self.draw.choice(["true", "false"])
            case "day" | "at":
                return space + json.dumps(self.draw.choice(_TIMES))
            case "venue" if depth < 3:
                return space + self._object(["country", "floor"], depth + 1)
            case "country":
                return space + self._text()
            case "floor":
                return space + self._number()
            case "tags":
                return (
                    space
                    + "["
                    + ",".join(self._text() for _ in range(self.draw.randrange(3)))
                    + "]"
                )
            case "legs" if depth < 3:
                count = self.draw.randrange(3)
                return (
                    space
                    + "["
                    + ",".join(self._object(["symbol", "size"], depth + 1) for _ in range(count))
                    + "]"
                )
            case "attrs":
                return space + self.draw.choice(
                    ['{"a":"b","":"c"}', '{"a":"b","a":"c"}', '{"ü.`":null}', "{}"]
                )
            case "logo":
                return space + self.draw.choice(
                    ['"aGk="', '"aGk"', '""', '"a-_="', '"aG k="', '"aGk=\\n"']
                )
        return space + self._number()

    def _number(self) -> str:
        if self.draw.random() < 0.5:
            return repr(self.draw.uniform(-1e6, 1e6))
        return self.draw.choice(_NUMBERS)

    def _text(self) -> str:
        if self.draw.random() < 0.2:
            return f'"a{self.draw.choice(_ESCAPES)}b"'
        return self._quoted(self.draw.choice(_TEXTS))

    def _quoted(self, text: str) -> str:
        if self.draw.random() < 0.1 and text:  # every character as an escape
            units = text.encode("utf-16-be", "surrogatepass")
            return (
                '"'
                + "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
                + '"'
            )
        return json.dumps(text, ensure_ascii=self.draw.random() < 0.5)

    def _space(self) -> str:
        return self.draw.choice(["", "", "", " ", "\t", "\n", "\r\n ", "  "])
