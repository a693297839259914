"""OpenAPI 3.1, made from the table of operations, so that it describes what the routes do."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from penstock.server.web.api_types import ShownProblem
from penstock.server.web.operations import Answer, Operation, Parameter
from penstock.server.web.problems import MEDIA_TYPE, PROBLEMS

_ALWAYS = ("too-many-requests", "internal", "overloaded", "misdirected")
_WITH_CREDENTIALS = ("unauthorized", "forbidden")
_WITH_BODY = ("bad-json", "timeout", "too-large", "unsupported-media-type")
_REFERENCE = "#/components/schemas/{name}"


def describe(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The whole description."""
    table = list(operations)
    types = _types(table)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in table:
        described = _operation(operation, known)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": version,
            "description": "Publish, subscribe, receive. docs/HTTP.md is the specification.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: pk_…"},
                "ticket": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The ticket of a subscription: 64 hexadecimal digits",
                },
            },
        },
    }


def _types(operations: Iterable[Operation]) -> list[Any]:
    found: dict[int, Any] = {id(ShownProblem): ShownProblem}
    for operation in operations:
        contents = [one.content for one in operation.answers.values()]
        if operation.body is not None:
            contents.append(operation.body.content)
        for content in contents:
            found |= {id(kind): kind for kind in content.values() if not isinstance(kind, Mapping)}
    return list(found.values())


def _operation(operation: Operation, known: Mapping[int, Any]) -> dict[str, Any]:
    answers = {str(code): _answer(one, known) for code, one in operation.answers.items()}
    for code, about in sorted(_problems(operation).items()):
        shown = _answer(Answer(about, {MEDIA_TYPE: ShownProblem}), known)
        answers.setdefault(str(code), shown)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "tags": [operation.tag],
        "responses": answers,
        "security": _security(operation),
    }
    if operation.parameters:
        described["parameters"] = [_parameter(one) for one in operation.parameters]
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.body.required,
            "content": _content(operation.body.content, known),
        }
    return described


def _problems(operation: Operation) -> dict[int, str]:
    kinds = [*_ALWAYS, *operation.problems]
    if operation.scope is not None:
        kinds += _WITH_CREDENTIALS
    if operation.body is not None:
        kinds += _WITH_BODY
    places = {one.place for one in operation.parameters}
    if "path" in places:
        kinds.append("not-found")
    if places & {"query", "header"} or operation.method in ("GET", "DELETE"):
        kinds.append("bad-parameter")
    titles: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        status, title = PROBLEMS[kind]
        titles.setdefault(status, []).append(f"{kind}: {title}")
    return {status: "; ".join(found) for status, found in titles.items()}


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    # {}: no credentials are needed while there are no keys.
    if operation.scope is None:
        return []
    if operation.scope == "ticket":
        return [{"ticket": []}, {"key": []}, {}]
    return [{"key": []}, {}]


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.place,
        "description": one.about,
        "required": one.required,
        "schema": one.schema,
    }


def _answer(one: Answer, known: Mapping[int, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": one.about}
    if one.content:
        described["content"] = _content(one.content, known)
    if one.headers:
        described["headers"] = {
            name: {"description": about, "schema": {"type": "string"}}
            for name, about in one.headers.items()
        }
    return described


def _content(content: Mapping[str, Any], known: Mapping[int, Any]) -> dict[str, Any]:
    return {
        media: {"schema": kind if isinstance(kind, Mapping) else known[id(kind)]}
        for media, kind in content.items()
    }
