"""Registries to test with: in memory, in a file, and in a real PostgreSQL server."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.servers import NoServer, postgresql

from penstock.registry import Subscriptions

_numbers = itertools.count(1)


class Clock:
    """A clock that stands still until it is told to move. UTC microseconds."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the tests."""
    try:
        with postgresql() as url:
            yield url
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.fixture
def new_database(server: str) -> Callable[[], str]:
    """Makes an empty schema in the server, much faster than a database; its URL."""

    def make() -> str:
        name = f"test_{next(_numbers)}"
        engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {name}"))
        engine.dispose()
        return f"{server}?options=-csearch_path%3D{name}"

    return make


_postgresql = pytest.param("postgresql", marks=pytest.mark.postgres)


@pytest.fixture(params=["sqlite", _postgresql])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a registry that several processes share can be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/subs.db"
    made: str = request.getfixturevalue("new_database")()
    return made


@pytest.fixture(params=["memory", "sqlite", _postgresql])
def subs(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Subscriptions]:
    """An empty registry of each kind, with a clock that stands still."""
    if request.param == "memory":
        registry = Subscriptions(clock=clock)
    elif request.param == "sqlite":
        registry = Subscriptions.open(tmp_path / "subs.db", clock=clock)
    else:
        registry = Subscriptions.open(request.getfixturevalue("new_database")(), clock=clock)
    with registry:
        yield registry
