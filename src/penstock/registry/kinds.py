"""The kinds of subscription: what each is called, how its texts begin, how they are checked.

    filter        price > 500 AND symbol = 'GOOG'
    select-join   SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE …
    tree-pattern  //news/item[topic = 'ACME'][author{val}]

All are in one table, but each kind is compiled by itself, from a source of its own (`kind_sources`). The text of an id
may change from a filter to a select: those who follow the filters then see the id removed.

A further kind is one more value in `KINDS`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s
from penstock.base.errors import FilterError
from penstock.joins.catalog import Catalog
from penstock.joins.select_costs import examine_select, examine_selects
from penstock.joins.selects import SELECT_PATTERN
from penstock.language import Schema
from penstock.language.conjunctions import Progress
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.matching import Examined, examine, examine_many
from penstock.matching.subscription_rows import Changes, Rows
from penstock.views.pattern_costs import examine_pattern, examine_patterns

Texts = Any  # pa.Array | pa.ChunkedArray: to mypy, Arrow has no types
Errors = list[tuple[int, FilterError]]
"""The errors of texts, each with the position of its text."""


class Rules(NamedTuple):
    """What subscriptions must fit: filters a schema and its operators, select-joins a catalogue."""

    schema: Schema | None = None
    operators: Signatures = NO_OPERATORS
    catalog: Catalog | None = None


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of subscription."""

    name: str
    begins: str
    """How its texts begin: a regular expression for Python and for Arrow."""
    expensive: str
    """The parts of a text that cost, in words: an error advises to use fewer of them."""
    examine: Callable[[str, Rules], Examined]
    """What one text costs. FilterError if it isn't a valid text of this kind."""
    examine_many: Callable[[Texts, Rules, Progress], tuple[Errors, Int64s]]
    """The same for many texts: the errors, and what each text costs."""

    @cached_property
    def _beginning(self) -> re.Pattern[str]:
        return re.compile(self.begins.replace("$", r"\Z"))

    def has(self, text: str) -> bool:
        """Whether a text is meant as one of this kind, right or wrong."""
        return self._beginning.match(text) is not None


def _examine_select(text: str, rules: Rules) -> Examined:
    return examine_select(text, rules.catalog)


def _examine_selects(texts: Texts, rules: Rules, progress: Progress) -> tuple[Errors, Int64s]:
    found = examine_selects(texts.to_pylist(), rules.catalog)
    progress(len(texts))
    return found


def _examine_pattern(text: str, rules: Rules) -> Examined:
    return examine_pattern(text)


def _examine_patterns(texts: Texts, rules: Rules, progress: Progress) -> tuple[Errors, Int64s]:
    return examine_patterns(texts.to_pylist(), progress)


def _examine_filter(text: str, rules: Rules) -> Examined:
    return examine(text, rules.schema, rules.operators)


def _examine_filters(texts: Texts, rules: Rules, progress: Progress) -> tuple[Errors, Int64s]:
    return examine_many(texts, rules.schema, rules.operators, progress)


_TESTS = (
    "patterns, memberships and comparisons of attributes, beside an equality, a range or a prefix"
)

SELECT_JOIN = Kind("select-join", SELECT_PATTERN, _TESTS, _examine_select, _examine_selects)
_SPACE = r"[ \t\r\n\f\v]*"
TREE_PATTERN = Kind(
    "tree-pattern",
    # A filter may begin with a comment: /* is a step only before another step, a branch, a return or the end.
    rf"^{_SPACE}(?:\[|/(?:[^*]|$)|/\*(?:[/\[{{]|{_SPACE}$))",
    "comparisons and nodes of any name (*)",
    _examine_pattern,
    _examine_patterns,
)
FILTER = Kind("filter", "", _TESTS, _examine_filter, _examine_filters)
KINDS = (SELECT_JOIN, TREE_PATTERN, FILTER)
"""The kind of a text is the first one here that `has` it; texts of no other kind are filters."""


def kind_of(text: str) -> Kind:
    """The kind that a text is meant as.

    >>> [kind_of(text).name for text in ("price > 5", "select * from A", "//a/b", "selected = 5")]
    ['filter', 'select-join', 'tree-pattern', 'filter']
    """
    return next(kind for kind in KINDS if kind.has(text))


def are_of_kind(texts: Texts, kind: Kind) -> Bools:
    """Which texts are meant as some kind; NULL counts as a filter."""
    found = np.zeros(len(texts), np.bool_)
    for other in KINDS:
        if other is FILTER:
            return ~found
        of_other = np.asarray(
            pc.fill_null(pc.match_substring_regex(texts, other.begins), False), np.bool_
        )
        if other is kind:
            return of_other & ~found
        found |= of_other
    raise AssertionError(f"{kind.name} is not among the kinds")


def rows_of_kind(rows: Rows, kind: Kind) -> Rows:
    """The subscriptions of one kind.

    >>> rows = Rows.of([(1, "alice", "price > 5", 9), (2, "bob", "select * from A", 9), (3, "eve", "//a", 9)])
    >>> [rows_of_kind(rows, kind).ids.tolist() for kind in (FILTER, SELECT_JOIN, TREE_PATTERN)]
    [[1], [2], [3]]
    """
    wanted = are_of_kind(rows.filters, kind)
    return rows if wanted.all() else rows.take(np.flatnonzero(wanted))


def changes_of_kind(changes: Changes, kind: Kind) -> Changes:
    """The changes as a follower of one kind sees them: an id whose text is now of another kind is removed."""
    mine = are_of_kind(changes.upserts.filters, kind)
    if mine.all():
        return changes
    others = changes.upserts.ids[~mine]
    return Changes(
        changes.sequence,
        changes.upserts.take(np.flatnonzero(mine)),
        np.union1d(changes.removed, others),
    )


def examine_all(
    texts: pa.ChunkedArray, rows: Int64s, rules: Rules, progress: Progress
) -> tuple[dict[int, FilterError], Int64s]:
    """Check the texts of some rows, of any kind. Returns the errors by row, and what each costs (0 for other rows)."""
    errors: dict[int, FilterError] = {}
    costs = np.zeros(len(texts), np.int64)
    wanted = np.zeros(len(texts), np.bool_)
    wanted[rows] = True
    for kind in KINDS:
        mine = np.flatnonzero(wanted & are_of_kind(texts, kind))
        if len(mine):
            some = texts if len(mine) == len(texts) else texts.take(mine)
            found, costs[mine] = kind.examine_many(some, rules, progress)
            errors |= {int(mine[place]): error for place, error in found}
    return errors, costs
