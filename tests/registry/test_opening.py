"""Opening a registry: where it may be, what is refused and why, disks that fill up, travel by pickle."""

import contextlib
import os
import pickle
import pwd
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from sqlalchemy import create_engine, text

from penstock.base.errors import RegistryError
from penstock.registry import Subscriptions


@pytest.mark.parametrize("name", ["subs.db", "odd name %41?#&=.db", "ünï.db", "no-suffix"])
def test_a_path_or_a_url_of_it_is_the_same(tmp_path: Path, name: str) -> None:
    with Subscriptions.open(tmp_path / name) as subs:
        sid, _ = subs.subscribe("alice", "price > 5")
    with Subscriptions.open(str(tmp_path / name), create=False) as subs:
        assert subs.get(sid)
        assert subs.url is not None
        with Subscriptions.open(subs.url, create=False) as again:
            assert again.identity == subs.identity
    assert (tmp_path / name).is_file()


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Subscriptions.open("sqlite:///subs.db") as subs:
        monkeypatch.chdir("/")
        subs.subscribe("alice", "price > 5")
        assert subs.url == f"sqlite:///{tmp_path}/subs.db"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_urls_of_memory(url: str) -> None:
    with Subscriptions.open(url) as subs:
        assert subs.url is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://host/subs", "can't live in 'mysql'"),
        ("http://host/subs", "can't live in 'http'"),
        ("://", "not a registry URL"),
        ("postgresql://host:port/subs", "not a registry URL"),
        ("/no/such/folder/subs.db", "no folder /no/such/folder"),
        ("/tmp", "not a file"),
    ],
)
def test_places_where_no_registry_can_be(url: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason):
        Subscriptions.open(url)


def test_without_create_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no registry to open"):
        Subscriptions.open(tmp_path / "subs.db", create=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(RegistryError, match="there is no registry in"):
        Subscriptions.open(tmp_path / "empty.db", create=False)
    Subscriptions.open(tmp_path / "empty.db").close()


@pytest.mark.postgres
def test_without_create_nothing_is_made_in_postgresql(new_database: Callable[[], str]) -> None:
    url = new_database()
    with pytest.raises(RegistryError, match="there is no registry in"):
        Subscriptions.open(url, create=False)
    assert tables(url) == set()


def tables(url: str) -> set[str]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        )
        names = {name for (name,) in found}
    engine.dispose()
    return names


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"not a database, but a diary\n" * 100)
    with pytest.raises(RegistryError, match=r"not a database.*give another one"):
        Subscriptions.open(path)
    assert path.read_bytes().startswith(b"not a database, but a diary")


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE invoices (id)")
        other.commit()
    before = path.read_bytes()
    with pytest.raises(
        RegistryError, match=r"something else \(tables invoices\).*a file of its own"
    ):
        Subscriptions.open(path)
    assert path.read_bytes() == before


@pytest.mark.postgres
def test_postgresql_may_hold_other_tables(new_database: Callable[[], str]) -> None:
    url = new_database()
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE invoices (id int)"))
    engine.dispose()
    with Subscriptions.open(url) as subs:
        subs.subscribe("alice", "price > 5")
    kept = {"registry", "subscriptions", "details", "history", "limits", "catalog", "costs"}
    ours = kept | {"set_aside", "resyncs", "held"}
    assert tables(url) == {"invoices", *(f"penstock_{name}" for name in ours)}


def test_a_newer_format_is_refused(url: str) -> None:
    with Subscriptions.open(url) as subs, subs._store.database.writing() as connection:
        connection.execute(text("UPDATE penstock_registry SET format = 6"))
    with pytest.raises(RegistryError, match=r"has format 6, .*reads formats up to 5.*newer"):
        Subscriptions.open(url)


def test_half_a_registry_is_refused(url: str) -> None:
    with Subscriptions.open(url) as subs, subs._store.database.writing() as connection:
        connection.execute(text("DROP TABLE penstock_registry"))
    with pytest.raises(RegistryError, match="half a registry"):
        Subscriptions.open(url)


def test_no_server_there() -> None:
    with pytest.raises(RegistryError, match="check that the server runs") as refused:
        Subscriptions.open("postgresql://penstock:topsecret@127.0.0.1:1/subs")
    assert "topsecret" not in str(refused.value)


def test_the_password_is_kept_but_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.registry.database_urls import database_of

    database = database_of("postgres://penstock:topsecret@db/subs")
    assert "topsecret" not in str(database)
    assert database.url is not None
    assert database.url.password == "topsecret"
    assert database.url.drivername == "postgresql+psycopg"


def test_durability_is_as_documented(tmp_path: Path) -> None:
    with Subscriptions.open(tmp_path / "subs.db") as subs, subs._store.database.reading() as db:
        assert db.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert db.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL
        assert db.execute(text("PRAGMA busy_timeout")).scalar() == 300_000


def test_a_writer_waits_for_its_turn_but_not_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.registry.databases.Database.patience", 1)
    with Subscriptions.open(url) as first, Subscriptions.open(url) as second:
        with (
            first._store.turn(),
            pytest.raises(RegistryError, match="another process has been writing for 1 second"),
        ):
            second.subscribe("alice", "price > 5")
        assert second.subscribe("alice", "price > 5").id == 1


@pytest.mark.postgres
def test_a_lost_connection_is_made_again(server: str, new_database: Callable[[], str]) -> None:
    with Subscriptions.open(new_database()) as subs:
        subs.subscribe("alice", "price > 5")
        engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
        with engine.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
            )
        engine.dispose()
        assert len(subs) == 1


def fill(subs: Subscriptions) -> None:
    for number in range(1000):
        subs.subscribe("alice", f"symbol = '{'x' * 1000}' AND price > {number}")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    def room(pages: int) -> None:
        with subs._store.database.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with Subscriptions.open(tmp_path / "subs.db") as subs:
        sid, ticket = subs.subscribe("alice", "price > 5")
        room(1)  # SQLite takes the size the file has now
        with pytest.raises(RegistryError, match=r"full; nothing was changed: make room"):
            fill(subs)
        before = subs.sequence()
        assert len(subs) == before
        assert len(subs.active()) == before
        subs.unsubscribe(sid, ticket)
        room(1_000_000)
        subs.subscribe("alice", f"symbol = '{'x' * 1000}'")
        assert subs.sequence() == before + 2


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anything: be nobody for a while."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody may look into, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_registry_can_be_read_while_it_is_open_elsewhere(public_folder: Path) -> None:
    path = public_folder / "subs.db"
    with Subscriptions.open(path) as owner:
        sid, ticket = owner.subscribe("alice", "price > 5")
        for file in public_folder.iterdir():
            file.chmod(0o444)
        public_folder.chmod(0o555)
        with unprivileged(), Subscriptions.open(path) as reader:
            assert reader.get(sid).filter == "price > 5"
            for deed in (
                lambda: reader.subscribe("bob", "price > 5"),
                lambda: reader.unsubscribe(sid, ticket),
            ):
                with pytest.raises(RegistryError, match=r"readonly.*check the permissions"):
                    deed()
            assert reader.get(sid).filter == "price > 5"


def test_a_folder_without_permission_says_so(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    with unprivileged(), pytest.raises(RegistryError, match="check the permissions"):
        Subscriptions.open(public_folder / "subs.db")


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_a_registry_travels_by_its_url(url: str, pickler: object) -> None:
    with Subscriptions.open(url, {"price": "double"}) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5")
        travelled = pickle.loads(pickler.dumps(subs))  # type: ignore[attr-defined]
        with travelled:
            assert travelled.identity == subs.identity
            assert travelled.schema == subs.schema
            travelled.unsubscribe(sid, ticket)
        assert len(subs) == 0


def test_a_registry_in_memory_does_not_travel() -> None:
    with pytest.raises(RegistryError, match="open one by URL"):
        pickle.dumps(Subscriptions())


def test_a_forked_child_opens_connections_of_its_own(url: str) -> None:
    with Subscriptions.open(url) as subs:
        subs.subscribe("parent", "price > 5")
        database = subs._store.database
        with database.reading() as connection:
            mine = connection.connection.driver_connection
        child = os.fork()
        if child == 0:
            try:
                with database.reading() as connection:
                    assert connection.connection.driver_connection is not mine
                subs.subscribe("child", "price > 6")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        subs.subscribe("parent", "price > 7")
        assert [found.subscriber for found in subs.list()] == ["parent", "child", "parent"]
