"""The catalogue of a registry: given once, kept with the subscriptions, and from then on the same for everybody.

A registry without a catalogue refuses select-joins. Nobody can change a catalogue, so selects can be checked against it
at any time. Schemas are different: a registry may get one while filters are being checked.
"""

from penstock.base.errors import RegistryError
from penstock.joins.catalog import Catalog
from penstock.registry.queries import keep_only_row, read_only_row
from penstock.registry.store import Store
from penstock.registry.tables import catalog as catalog_table


def read_catalog(store: Store) -> Catalog | None:
    """The registry's catalogue, if it has one."""
    with store.reading() as connection:
        text = read_only_row(connection, catalog_table.c.catalog)
    return None if text is None else Catalog.from_json(text)


def keep_catalog(store: Store, catalog: Catalog) -> Catalog:
    """Give the registry its catalogue. RegistryError if it has another."""
    kept = read_catalog(store)
    if kept is None:
        with store.turn() as turn:
            if read_only_row(turn.connection, catalog_table.c.catalog) is None:
                keep_only_row(turn.connection, catalog_table.c.catalog, catalog.to_json())
        kept = read_catalog(store)
    if kept != catalog:
        raise RegistryError(
            f"the registry {store.database} has another catalogue: open it without one, or with its own\n"
            f"  its own: {'' if kept is None else kept.to_json()}\n  given:   {catalog.to_json()}"
        )
    return catalog
