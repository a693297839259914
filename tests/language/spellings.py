"""Random conjunctions for Hypothesis, in every spelling a text can have: most are filters, some are nearly.

Common things come first in every choice, so that shrinking goes towards them.
"""

from hypothesis import strategies as st

from penstock import Schema

SCHEMA = Schema.of(
    {
        "a": "bigint",
        "b": "bigint",
        "d": "double",
        "c": "decimal(12,2)",
        "w": "decimal(38,10)",
        "s": "string",
        "note": "string",
        "flag": "boolean",
        "day": "date",
        "at": "timestamp",
        "items": "array<bigint>",
        "tags": "array<string>",
        "o": {"p": "bigint", "And": "string", "in": {"like": "double"}},
        "odd name": "bigint",
        'x" AND "y': "bigint",
        "größe": "double",
        "interval": "bigint",
        "date": "date",
        "order": "bigint",
    }
)

SPACES = st.sampled_from([" ", " ", " ", "  ", "\n", "\t", " \r\n "])
GAPS = st.sampled_from(["", " ", "  ", "\n"])
NAMES = {
    "number": ["a", "A", "b", "d", "c", "w", "o.p", 'O."P"', "o.in.like", '"odd name"', '"x"" AND ""y"', "größe",
               "interval", "order", '"order"'],
    "string": ["s", "note", '"S"', "o.And"],
    "boolean": ["flag", "FLAG"],
    "time": ["day", "at", "date"],
    "other": ["items", "o", "o . p", "nope", "current_date", "a.b", "between", "not", "E"],
}  # fmt: skip
LITERALS = {
    "number": ["0", "7", "42", "2.5", "-5", "1e3", "- 7", "+0.10", "007", "3.000", "2.5e+2", "1E-5", "-0.1e1",
               "9223372036854775807", "9223372036854775808", "9007199254740993", "90071992547409.93",
               "123456789012345678901234567890"],
    "string": ["'x'", "''", "'it''s'", "'a AND b'", "'--'", "'/* x'", "'\"'", "'größe 😀'", "'a\\'", "'\t'", "'5'"],
    "boolean": ["TRUE", "false"],
    "time": ["'2024-01-31'", "'2024-02-01 10:00:00'", "'2024-01-31 10:00:00+02:00'", "DATE '2024-01-31'",
             "TIMESTAMP '2024-01-31 10:00'", "TIMESTAMPTZ '2024-01-31T10:00Z'"],
    "other": ["NULL", ".5", "5.", "1e999", "1e-400", "1_000", "0x1F", "1e", "--5", "- -5", "'2024-02-30'", "'soon'",
              "'a\0b'", "date '2024-02-30'", "TIMESTAMP '2024-01-31 10:00+01'", "DATE'2024-01-31'", "b", "E'x'"],
}  # fmt: skip
_LONG = f"'{'x' * 1001}%'"
PATTERNS = [
    "'x%'",
    "'x'",
    "'%x'",
    "'%'",
    "''",
    "'x_'",
    "'x%%'",
    "'it''s%'",
    "'a%b%'",
    "'é%'",
    _LONG,
]
REST = [
    "flag", "array_contains(items, 5)", "List_Has( tags , 'x' )", "(a = 1)", "( a IN (1, 2) )", "a = b", "a < d",
    "NOT flag", "NOT a = 1", "a = 1 OR b = 2", "(a = 1 AND b = 2)", "TRUE", "a = 1 -- x", "/* x */ a = 1", "a ISNULL",
    "a", "a IN (SELECT 1)", "a + 1 = 2", "", "array_contains(items, 'x')", "a = 1 a", "a = 'x' 'y'", "a IN 5",
    "CASE WHEN a = 1", "a BETWEEN 1", "a BETWEEN SYMMETRIC 1 AND 2", "a = 1;", "s LIKE 'x!%' ESCAPE '!'",
]  # fmt: skip
KINDS = ["number", "string", "boolean", "time"]


@st.composite
def filters(draw: st.DrawFn) -> str:
    """A conjunction, or something that looks like one."""
    parts = draw(st.lists(predicates(), min_size=1, max_size=5))
    text = parts[0]
    for part in parts[1:]:
        text += f"{draw(SPACES)}{draw(words('AND'))}{draw(SPACES)}{part}"
    ends = ["", "", "", " ", "\n", " AND", " x"] if draw(rarely()) else ["", "", " "]
    return draw(st.sampled_from(["", "", " ", "\n"])) + text + draw(st.sampled_from(ends))


@st.composite
def wrapped(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """Rarely in parentheses, which change nothing around a value or a condition."""
    text = draw(inner)
    while draw(rarely()):
        text = f"({draw(GAPS)}{text}{draw(GAPS)})"
    return text


def predicates() -> st.SearchStrategy[str]:
    return wrapped(bare_predicates())


def literals(kind: str) -> st.SearchStrategy[str]:
    return wrapped(bare_literals(kind))


@st.composite
def bare_predicates(draw: st.DrawFn) -> str:
    if draw(rarely()):
        return draw(st.sampled_from(REST))
    kind, gap = draw(st.sampled_from(KINDS)), draw(GAPS)
    name = draw(wrapped(st.sampled_from(NAMES["other" if draw(rarely()) else kind])))
    negation = draw(st.sampled_from(["", "", "NOT "]))
    forms = ["compare", "in", "between", "is", *(["like", "like"] if kind == "string" else [])]
    match draw(st.sampled_from(forms)):
        case "compare":
            sides = [name, draw(literals(kind))]
            if draw(rarely()):
                sides.reverse()
            odd = ["! =", "=<", "<=>"] if draw(rarely()) else []
            order = draw(st.sampled_from(["=", "<", ">", "<=", ">=", "<>", "!=", "==", *odd]))
            return f"{sides[0]}{gap}{order}{gap}{sides[1]}"
        case "between":
            low, high = draw(literals(kind)), draw(literals(kind))
            word = draw(words(negation + "BETWEEN" if draw(rarely()) else "BETWEEN"))
            return f"{name} {word} {low}{draw(SPACES)}{draw(words('AND'))} {high}"
        case "in":
            elements = draw(
                st.lists(literals(kind), min_size=0 if draw(rarely()) else 1, max_size=4)
            )
            if draw(st.booleans()):
                elements = elements[:1] * draw(st.integers(1, 5))
            comma = draw(st.sampled_from([", ", ",", " , ", ",\n"])) if not draw(rarely()) else " "
            return f"{name} {draw(words(negation + 'IN'))}{gap}({gap}{comma.join(elements)}{gap})"
        case "like":
            pattern = draw(wrapped(st.sampled_from(PATTERNS)))
            return f"{name} {draw(words(negation + 'LIKE'))} {pattern}"
    what = draw(
        st.sampled_from(["NULL", "NULL", "TRUE", "FALSE", "DISTINCT FROM", "DISTINCT FROM"])
    )
    end = f" {draw(literals(kind))}" if what == "DISTINCT FROM" else ""
    return f"{name} {draw(words('IS ' + negation + what))}{end}"


@st.composite
def bare_literals(draw: st.DrawFn, kind: str) -> str:
    if draw(rarely()):
        kind = draw(st.sampled_from([*KINDS, "other"]))
    return draw(st.sampled_from(LITERALS[kind]))


@st.composite
def words(draw: st.DrawFn, text: str) -> str:
    """Keywords in some spelling."""
    cased = draw(st.sampled_from([str.upper, str.upper, str.lower, str.title]))
    return draw(SPACES).join(cased(word) for word in text.split())


def rarely() -> st.SearchStrategy[bool]:
    return st.integers(0, 19).map(lambda n: n == 19)
