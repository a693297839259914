"""What OpenAPI promises is what the service does: schemathesis tries it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.server.web import QUICK, accept_all_kinds, web_service
from tests.sizes import LONG

EXAMPLES = 6  # of each operation
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
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The description of a service whose live reads are short."""
    limits = replace(QUICK, poll_seconds=0.05, stream_seconds=0.05)
    with web_service(tmp_path_factory.mktemp("described"), limits) as web:
        accept_all_kinds(web.service)
        web.subscribe("price > 5")
        web.post("/v1/events", {"price": 7.0})
        yield schemathesis.openapi.from_url(f"{web.url}/openapi.json")


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_what_is_promised_holds(described: Any, mode: GenerationMode):
    """Any request, right or wrong, gets an answer that is described; a right one isn't refused without a reason."""
    tried = 0
    for found in described.get_all_operations():
        try:
            cases = found.ok().as_strategy(generation_mode=mode)
            _try(cases, mode)
            tried += 1
        except hypothesis.errors.Unsatisfiable:
            assert (
                mode is GenerationMode.NEGATIVE
            )  # nothing can be wrong with a request that says nothing
    assert tried > 12


def _try(cases: Any, mode: GenerationMode) -> None:
    @hypothesis.given(case=cases)
    @hypothesis.settings(
        max_examples=EXAMPLES * LONG,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def run(case: schemathesis.Case) -> None:
        response = case.call()
        case.validate_response(response, checks=CHECKS)
        refused = 400 <= response.status_code < 500 and response.status_code not in (404, 409)
        if mode is GenerationMode.POSITIVE and refused:
            kind = response.json()["type"].rpartition(":")[2]
            assert kind in SAYS_MORE_THAN_A_SCHEMA, response.text

    run()
