"""The catalogue of a registry: given once, kept with the subscriptions, and from then on the same for everybody.

Select-joins stand among the other subscriptions, told apart by how their text begins. A registry without a catalogue
refuses them. The catalogue has a table of its own, which is made when there is one to keep: registries without
select-joins stay as they were.

Nobody can change a catalogue, so whoever has read it may check selects against it at any time: there is no race as with
schemas, which a registry may get late.
"""

from collections.abc import Sequence

from sqlalchemy import CheckConstraint, Column, Integer, MetaData, Table, Text, insert, select

from penstock.errors import FilterError, RegistryError
from penstock.joins.catalog import Catalog
from penstock.language.selects import Selects
from penstock.registry.store import Store

catalogs = Table(
    "penstock_catalog",
    MetaData(),
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("catalog", Text, nullable=False),
)


def read_catalog(store: Store) -> Catalog | None:
    """The registry's catalogue, if it has one.

    >>> from penstock.registry.databases import database_of
    >>> read_catalog(Store(database_of(None))) is None
    True
    """
    with store.reading() as connection:
        if catalogs.name not in store.database.tables(connection):
            return None
        text = connection.scalar(select(catalogs.c.catalog))
    return None if text is None else Catalog.from_json(text)


def keep_catalog(store: Store, catalog: Catalog) -> Catalog:
    """Give the registry its catalogue. RegistryError if it has another."""
    kept = read_catalog(store)
    if kept is None:
        with store.database.creating() as connection:
            catalogs.create(connection, checkfirst=True)
            if connection.scalar(select(catalogs.c.catalog)) is None:
                connection.execute(insert(catalogs).values(one=1, catalog=catalog.to_json()))
        kept = read_catalog(store)
    if kept != catalog:
        raise RegistryError(
            f"the registry {store.database} has another catalogue: open it without one, or with its own\n"
            f"  its own: {'' if kept is None else kept.to_json()}\n  given:   {catalog.to_json()}"
        )
    return catalog


def no_catalog(text: str) -> FilterError:
    """Why a select is refused where there is no catalogue."""
    return FilterError(
        text,
        "a select needs a catalogue of tables, and the registry has none",
        0,
        6,
        hint="Subscriptions(catalog=…) or Subscriptions.open(…, catalog=…); a filter has no SELECT",
    )


def check_selects(texts: Sequence[str], catalog: Catalog | None) -> list[tuple[int, FilterError]]:
    """Check many selects. Returns the bad ones by position.

    >>> [str(error.reason) for _, error in check_selects(["SELECT * FROM A"], None)]
    ['a select needs a catalogue of tables, and the registry has none']
    """
    if catalog is None:
        return [(row, no_catalog(text)) for row, text in enumerate(texts)]
    return Selects.under(catalog).many(texts)[1]
