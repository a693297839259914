"""One service for all tests that don't need their own."""

from collections.abc import Iterator

import pytest
from tests.server.web import WebService, accept_all_kinds, web_service


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """Without keys, matching live, with a declared schema."""
    with web_service(tmp_path_factory.mktemp("service")) as found:
        accept_all_kinds(found.service)
        yield found
