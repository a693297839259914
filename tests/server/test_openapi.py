"""What OpenAPI promises is what the service does: schemathesis tries it, on a service with all kinds of subscription."""

from collections.abc import Iterator
from dataclasses import replace

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.server.web import QUICK, web_service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
SAYS_MORE_THAN_A_SCHEMA = {
    "invalid-subscription",  # the language
    "invalid-value",  # leases, names
    "invalid-records",  # the schema of the events
    "bad-header",  # the headers of a producer go together
    "bad-parameter",  # live reads need an offset
    "bad-offset",  # ahead of the tail
}
"""Problems of requests that fit OpenAPI's description."""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The description of a service whose live reads are short."""
    limits = replace(QUICK, poll_seconds=0.05, stream_seconds=0.05)
    with web_service(tmp_path_factory.mktemp("described"), limits) as web:
        web.subscribe("price > 5")
        web.post("/v1/events", {"price": 7.0})
        yield schemathesis.openapi.from_url(f"{web.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@hypothesis.settings(max_examples=8)
def test_what_is_promised_holds(case: schemathesis.Case):
    """Any request, right or wrong, gets an answer that is described; a right one isn't refused without a reason."""
    response = case.call()
    case.validate_response(response, checks=CHECKS)
    is_right = case.meta is not None and case.meta.generation.mode.is_positive
    if is_right and 400 <= response.status_code < 500 and response.status_code not in (404, 409):
        kind = response.json()["type"].rpartition(":")[2]
        assert kind in SAYS_MORE_THAN_A_SCHEMA, response.text
