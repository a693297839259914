"""The stages of a catalogue on Spark, and the key of each.

    changes ─▶ tuples, keyed by table and primary key ─▶ semijoins, keyed by edge and join attributes ─▶ notifications

A select-join of many tables is several binary semijoins (`joins.decompose`), each keyed by the attributes of its own
edge. So a tuple goes to one bucket of every edge that its table has, and no edge waits for another. A table that is
selected alone has a stage of its own, keyed by its primary key. All edges share one stateful operator of Spark: its
key is the number of the stage and of the bucket, and Spark spreads these over its partitions.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.joins.catalog import Catalog
from penstock.joins.subscription import JoinEdge, SelectJoin

COSTS = "costs"
"""The folder, beside the snapshots, to which tasks write the costs of subscriptions (`running_costs`)."""


@dataclass(frozen=True, slots=True)
class Window:
    """How long tuples stay: one whose time, in `column`, is `length` microseconds ago or more is deleted."""

    column: str
    length: int


@dataclass(frozen=True)
class Stage:
    """One edge, or one table that is selected alone."""

    number: int
    edge: JoinEdge | None
    tables: tuple[str, ...]  # of the core, in the order in which their changes are applied

    def bucket_attributes(self, table: str, catalog: Catalog) -> tuple[str, ...]:
        """The attributes of a table that decide to which bucket a tuple goes."""
        if self.edge is None:
            return catalog.tables[table].key
        return tuple(pair[self.edge.right == table] for pair in self.edge.attributes)


@dataclass(frozen=True)
class Stages:
    """All stages, how many buckets each has, and which tables have windows. Fixed for the life of a query.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of(
    ...     {"A": Table({"x": "int", "k": "int"}, "k"), "B": Table({"x": "int"}, "x")}, edges=[("A", "B", "x")]
    ... )
    >>> [(stage.number, stage.tables) for stage in Stages(catalog, 8, ("A",)).all]
    [(0, ('A', 'B')), (1, ('A',))]
    """

    catalog: Catalog
    buckets: int
    alone: tuple[str, ...] = ()  # tables that may be selected alone
    windows: Mapping[str, Window] = field(default_factory=dict)  # by declared table
    partitions: int = 1  # over which Spark spreads the buckets

    @functools.cached_property
    def all(self) -> tuple[Stage, ...]:
        edges = [
            Stage(n, edge, (edge.left, edge.right)) for n, edge in enumerate(self.catalog.edges)
        ]
        alone = [Stage(len(edges) + n, None, (table,)) for n, table in enumerate(self.alone)]
        return (*edges, *alone)

    def of(self, table: str) -> Iterator[Stage]:
        """The stages that a table of the core goes to."""
        return (stage for stage in self.all if table in stage.tables)

    @functools.cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The tables of the core that each declared table consists of."""
        return {
            name: tuple(part for part, _ in self.catalog.parts(name, {}))
            for name, _ in self.catalog.declared
        }

    def lacking(self, join: SelectJoin) -> str | None:
        """What a select-join needs that these stages lack; None if nothing."""
        if len(join.sides) == 1 and join.sides[0].table not in self.alone:
            return f"this pipeline doesn't serve selects on {join.sides[0].table} alone: name it in `alone`"
        return None

    def to_dict(self) -> dict[str, object]:
        """All that must stay the same for the life of a query."""
        windows = {name: [w.column, w.length] for name, w in sorted(self.windows.items())}
        return {
            "catalog": self.catalog.to_json(),
            "buckets": self.buckets,
            "alone": list(self.alone),
            "windows": windows,
            "partitions": self.partitions,
        }
