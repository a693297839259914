"""The global predicate index of mbd §3.1: every distinct predicate once, with its Boolean variable.

    attribute ──▶ values ──▶ variable          a dense number, given to another predicate when its last use has left
        │
        ├── order    its predicates sorted by where they begin and end (`predicate_order`)
        └── table    which of them are immediate covers of which (`dependencies`, mbd §4.4)

The index of mbd §3.1 goes by type, attribute, operator and value. Here a predicate is an attribute with the set of
values that it accepts, so `i > 5` and `i >= 6` are one, and so are `s IN ('a')` and `s = 'a'`. All keys of an attribute
are of one type, integers or bytes.

What a predicate implies is asked for each predicate of a new subscription, in both directions. It is found by position,
and kept until a predicate of the attribute comes or goes. The table knows the same, and whoever wants to see it or to
go from neighbour to neighbour has it; but following its rows takes longer than a walk along the sorted ranges, so
nothing here waits for that. `cache=False` has neither order nor table, and compares with every predicate of the
attribute each time, as MBD-C in mbd §6 does: to measure what they are good for.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from benchmarks.baselines.covering.dependencies import Dependencies
from benchmarks.baselines.covering.predicate_order import PredicateOrder
from penstock.base.arrays import Int32s, Int64s
from penstock.base.labels import Key
from penstock.language.calls import Path
from penstock.language.values import EVERYTHING, Values

_NONE = np.empty(0, np.int32)
_KEPT = 1_000_000  # variables in the kept answers of one attribute


class _Attribute:
    """The predicates of one attribute; what those of `order` imply, and are implied by, as far as it has been asked."""

    def __init__(self, cache: bool) -> None:
        self.variables: dict[Values, int] = {}
        self.keys: type | None = None
        self.order = PredicateOrder() if cache else None
        self.table = Dependencies()
        self.implied: dict[int, Int32s] = {}
        self.implying: dict[int, Int32s] = {}
        self._kept = 0

    def keep(self, answers: dict[int, Int32s], variable: int, found: Int32s) -> None:
        """Remember an answer; the memory that takes is bounded."""
        self._kept += len(found) + 1
        if self._kept > _KEPT:
            self.forget()
        answers[variable] = found

    def forget(self) -> None:
        """Something has come or gone: answers may be others now."""
        self.implied.clear()
        self.implying.clear()
        self._kept = 0


class PredicateIndex:
    """Predicates, their variables, and which of them imply which.

    >>> index = PredicateIndex()
    >>> price, above = ("price",), [Values(((n + 1, None),)) for n in (5, 10, 8)]
    >>> [index.use(price, values) for values in above]
    [0, 1, 2]
    >>> sorted(index.rows()), index.implying(price, above[2]).tolist()
    ([(1, 2), (2, 0)], [2, 1])
    >>> index.release(2)
    >>> sorted(index.rows()), index.predicate(1)
    ([(1, 0)], (('price',), Values(intervals=((11, None),), null=False)))
    """

    def __init__(self, *, cache: bool = True) -> None:
        self._cache = cache
        self._attributes: dict[Path, _Attribute] = {}
        self._predicates: list[tuple[Path, Values] | None] = []
        self._free: list[int] = []
        self._uses = np.zeros(16, np.int64)

    def __len__(self) -> int:
        """How many distinct predicates there are."""
        return len(self._predicates) - len(self._free)

    @property
    def uses(self) -> Int64s:
        """By variable, how often its predicate is used; longer than what is in use."""
        return self._uses

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        orders = (attribute.order for attribute in self._attributes.values())
        return self._uses.nbytes + sum(order.nbytes for order in orders if order is not None)

    def paths(self) -> list[Path]:
        """The attributes that have predicates."""
        return list(self._attributes)

    def predicate(self, variable: int) -> tuple[Path, Values]:
        """What a variable stands for. KeyError if for nothing."""
        found = self._predicates[variable] if 0 <= variable < len(self._predicates) else None
        if found is None:
            raise KeyError(f"no predicate has the variable {variable}")
        return found

    def find(self, path: Path, values: Values) -> int:
        """The variable of a predicate; -1 if it isn't here."""
        attribute = self._attributes.get(path)
        return -1 if attribute is None else attribute.variables.get(values, -1)

    # --- what implies what -------------------------------------------------------------------------

    def implied(self, path: Path, values: Values) -> Int32s:
        """The variables that are true wherever a predicate is, which need not be here; its own if it is."""
        return self._related(path, values, implied=True)

    def implying(self, path: Path, values: Values) -> Int32s:
        """The variables that are true only where a predicate is, which need not be here; its own if it is."""
        return self._related(path, values, implied=False)

    def _related(self, path: Path, values: Values, implied: bool) -> Int32s:
        attribute = self._attributes.get(path)
        if attribute is None:
            return _NONE
        variable = attribute.variables.get(values, -1)
        known = attribute.implied if implied else attribute.implying
        found = known.get(variable)
        if found is not None:
            return found
        self.check(path, values)
        order = attribute.order
        if order is None:
            several = [
                v
                for other, v in attribute.variables.items()
                if (other.includes(values) if implied else values.includes(other))
            ]
            return np.array(several, np.int32)
        found = order.implied(values) if implied else order.implying(values)
        if variable >= 0:
            attribute.keep(known, variable, found)
        return found

    def holding(self, path: Path, key: Key | None) -> Int32s:
        """The variables of an attribute that are true of a value, given its key; None is NULL."""
        attribute = self._attributes.get(path)
        if attribute is None:
            return _NONE
        if key is not None and attribute.keys not in (None, type(key)):
            raise _mixed(path, key)
        if attribute.order is not None:
            return attribute.order.holding(key)
        found = [v for values, v in attribute.variables.items() if values.contains(key)]
        return np.array(found, np.int32)

    def rows(self) -> Iterator[tuple[int, int]]:
        """The table: every variable with its immediate covers. None without a cache."""
        for attribute in self._attributes.values():
            yield from attribute.table.rows()

    def table(self, path: Path) -> Dependencies:
        """The table of one attribute; empty without a cache. KeyError if it has no predicates."""
        return self._attributes[path].table

    # --- coming and going ----------------------------------------------------------------------------

    def check(self, path: Path, values: Values) -> None:
        """TypeError if a predicate's keys aren't of the attribute's type, ValueError if it accepts all or nothing."""
        attribute = self._attributes.get(path)
        if attribute is not None and values in attribute.variables:
            return
        if values.is_empty or values == EVERYTHING:
            what = "nothing" if values.is_empty else "everything"
            raise ValueError(
                f"a predicate of {_name(path)} accepts {what}: leave out the box or the test"
            )
        keys = None if attribute is None else attribute.keys
        for interval in values.intervals:
            for key in interval:
                if key is not None:
                    keys = keys or type(key)
                    if type(key) is not keys:
                        raise _mixed(path, key)

    def use(self, path: Path, values: Values) -> int:
        """Count one more use of a predicate; the variable that stands for it. Errors as `check` has them."""
        attribute = self._attributes.get(path)
        if attribute is not None:
            variable = attribute.variables.get(values)
            if variable is not None:
                self._uses[variable] += 1
                return variable
        self.check(path, values)
        if attribute is None:
            attribute = self._attributes[path] = _Attribute(self._cache)
        variable = self._new_variable(path, values)
        if attribute.keys is None:
            attribute.keys = next(
                (type(key) for interval in values.intervals for key in interval if key is not None),
                None,
            )
        if attribute.order is not None:
            attribute.table.add(variable, *self._immediate(attribute, values))
            attribute.order.add(variable, values)
            attribute.forget()
        attribute.variables[values] = variable
        return variable

    def release(self, variable: int) -> None:
        """Count one use less; a predicate without uses leaves. KeyError if it isn't here."""
        path, values = self.predicate(variable)
        self._uses[variable] -= 1
        if self._uses[variable]:
            return
        attribute = self._attributes[path]
        del attribute.variables[values]
        if attribute.order is not None:
            attribute.table.remove(variable, self._includes)
            attribute.order.remove(variable, values)
            attribute.forget()
        if not attribute.variables:
            del self._attributes[path]
        self._predicates[variable] = None
        heappush(self._free, variable)
        if len(self._free) == len(self._predicates):
            self._predicates.clear()
            self._free.clear()

    def _new_variable(self, path: Path, values: Values) -> int:
        if self._free:
            variable = heappop(self._free)
            self._predicates[variable] = path, values
        else:
            variable = len(self._predicates)
            self._predicates.append((path, values))
            if variable == len(self._uses):
                self._uses = np.concatenate([self._uses, np.zeros(variable, np.int64)])
        self._uses[variable] = 1
        return variable

    def _immediate(self, attribute: _Attribute, values: Values) -> tuple[set[int], set[int]]:
        """The immediate covers of a new predicate, and those of which it is one."""
        assert attribute.order is not None
        above, below = attribute.order.immediate(values)
        if not attribute.order.has_sets():
            return above, below
        # Whatever lies in between, something that does stands next to the cover, and next to the covered, in the table.
        covered, covers = attribute.table.covered, attribute.table.covers
        return (
            {v for v in above if not any(self._values(t).includes(values) for t in covered(v))},
            {v for v in below if not any(values.includes(self._values(t)) for t in covers(v))},
        )

    def _includes(self, cover: int, inner: int) -> bool:
        return self._values(cover).includes(self._values(inner))

    def _values(self, variable: int) -> Values:
        return self.predicate(variable)[1]


def _name(path: Path) -> str:
    return ".".join(path)


def _mixed(path: Path, key: Key) -> TypeError:
    return TypeError(
        f"attribute {_name(path)} has the key {key!r}, but its predicates have keys of another type: "
        "make all regions and events from one schema"
    )
