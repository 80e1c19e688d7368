"""Turns a route table into an OpenAPI 3.1 document, from its data alone.

One document describes one microversion: the routes served at it, with the schemas in force then
(which are of JSON Schema 2020-12, as OpenAPI 3.1 has them). Beside what a route promises, the
document lists what the face answers on any route.

Source: OpenAPI Specification 3.1; ``x-openstack`` is as in OpenStack's codegenerator.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from placement_sched.api.error_pages import HTML, TEXT
from placement_sched.api.microversion import Version
from placement_sched.api.route import EVER, NEVER, Route
from placement_sched.api.schema import REPEATED, Json, Schemas

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_JSON = "application/json"
_TOKEN = "token"  # noqa: S105 - the name of a security scheme
#: The one query parameter whose properties stand for keys that have a pattern, not a name.
_PATTERNED = "suffixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """What a document describes: a face's name, the service its version header names, its routes.

    At any one version at most one of the routes serves a method on a path. ``names`` are the
    schemas of what a path names, by parameter; ``errors`` is the body of every refusal, by version.
    From ``dated_since`` on, answers tell when what they show last changed.
    """

    title: str
    service: str
    routes: tuple[Route, ...]
    names: Mapping[str, Json]
    errors: Schemas
    dated_since: Version


def document(face: Face, version: Version, server: str) -> dict[str, Any]:
    """Return the OpenAPI document of ``face`` at ``version``, mounted at the path ``server``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in face.routes:
        if route.serves(version):
            path = paths.setdefault(template(route.path), {})
            path[route.method.lower()] = _operation(face, route, version)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": face.title,
            "version": str(version),
            "description": (
                f"As of microversion {version}. Ask with the header OpenStack-API-Version for the "
                "document of another one."
            ),
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": {"Errors": _schema(face.errors, version)},
            "headers": _HEADERS,
            "securitySchemes": {_TOKEN: {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def template(path: str) -> str:
    """Return a route's path as OpenAPI writes it: ``/traits/{name}``."""
    return _PARAMETER.sub(r"{\1}", path)


def statuses(route: Route) -> frozenset[int]:
    """Return every status that a request to ``route`` may be answered with.

    Those are the route's own and those of the face, which on any route may find the microversion
    malformed (400) or not served (406) and the database not there (503).
    """
    found = {*route.statuses, 400, 406, 503}
    if not route.public:
        found |= {401, 403}
    if _PARAMETER.search(route.path):
        # No name has a NUL character in it, whatever the route makes of names.
        found.add(404)
    if route.body is not None:
        found |= {413, 415}
    return frozenset(found)


def _operation(face: Face, route: Route, version: Version) -> dict[str, Any]:
    """Return what is said of one method on one path."""
    noun = route.handler.__module__.rpartition(".")[2]
    operation: dict[str, Any] = {
        "operationId": f"{noun}.{route.handler.__name__}",
        "summary": (route.handler.__doc__ or noun).partition("\n")[0],
        "tags": [noun],
        "parameters": [
            *_names(face, route),
            *_query(route, version),
            _version_parameter(face, version),
        ],
        "responses": {
            str(status): _response(face, route, version, status)
            for status in sorted(statuses(route))
        },
        "security": [] if route.public else [{_TOKEN: []}],
    }
    if route.body is not None:
        schema = _schema(route.body, version)
        content = {kind: {"schema": schema} for kind in route.content_types}
        operation["requestBody"] = {"required": True, "content": content}
    if window := _window(route):
        operation["x-openstack"] = window
    return operation


def _window(route: Route) -> dict[str, str]:
    window = {}
    if route.since != EVER:
        window["min-ver"] = str(route.since)
    if route.until != NEVER:
        window["max-ver"] = str(route.until)
    return window


def _schema(schemas: Schemas, version: Version) -> Json:
    """Return the schema in force; where there is none, the one that anything fits."""
    schema = schemas.at(version)
    return {} if schema is None else schema.definition


def _names(face: Face, route: Route) -> Iterable[dict[str, Any]]:
    for name in _PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": face.names[name]}


def _query(route: Route, version: Version) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    query = _schema(route.query, version)
    required = query.get("required", ())
    for name, schema in query.get("properties", {}).items():
        yield _query_parameter(name, schema, required=name in required)
    if "patternProperties" in query:
        # Exploded, the properties of an object are parameters of their own.
        groups = {key: query[key] for key in ("type", "patternProperties", "additionalProperties")}
        yield _query_parameter(_PATTERNED, groups, required=False)


def _query_parameter(name: str, schema: Json, *, required: bool) -> dict[str, Any]:
    if schema.get(REPEATED):
        one = {key: value for key, value in schema.items() if key != REPEATED}
        schema = {"type": "array", "items": one}
    parameter = {"name": name, "in": "query", "required": required, "schema": schema}
    return {**parameter, "style": "form", "explode": True}


def _version_parameter(face: Face, version: Version) -> dict[str, Any]:
    return {
        "name": "OpenStack-API-Version",
        "in": "header",
        "description": "The microversion; without one the oldest.",
        "schema": {"type": "string", "const": f"{face.service} {version}"},
    }


#: Errors are HTML or text for clients that accept no JSON.
_ERRORS: Json = {
    _JSON: {"schema": {"$ref": "#/components/schemas/Errors"}},
    **{kind: {"schema": {"type": "string"}} for kind in (HTML, TEXT)},
}


def _response(face: Face, route: Route, version: Version, status: int) -> dict[str, Any]:
    """Return what is said of one status: a success has the route's body, a refusal the face's."""
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "headers": {
            name: {"$ref": f"#/components/headers/{name}"}
            for name in _headers(face, route, version, status)
        },
    }
    if status >= HTTPStatus.BAD_REQUEST:
        response["content"] = _ERRORS
        return response
    found = route.answer.at(version) if route.answer else None
    if found is not None:
        response["content"] = {_JSON: {"schema": found.definition}}
    return response


def _headers(face: Face, route: Route, version: Version, status: int) -> Iterable[str]:
    """Yield the headers of an answer, but for those that tell of its body."""
    yield from ("X-Openstack-Request-Id", "OpenStack-API-Version", "Vary")
    if status in route.located:
        yield "Location"
    if status in route.dated and version.has(face.dated_since):
        yield from ("Last-Modified", "Cache-Control")
    if status == HTTPStatus.UNAUTHORIZED:
        yield "WWW-Authenticate"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        yield "Retry-After"


def _header(description: str, *, required: bool = False, **schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "required": required,
        "schema": {"type": "string", **schema},
    }


_HEADERS: Mapping[str, Any] = {
    "X-Openstack-Request-Id": _header("Names the request in the server's log.", required=True),
    "OpenStack-API-Version": _header(
        "The microversion that answered; not there where none could be agreed on."
    ),
    "Vary": _header(
        "That the answer depends on OpenStack-API-Version; not there where none could be agreed on."
    ),
    "Location": _header("The address of what was made or found.", required=True),
    "Last-Modified": _header(
        "When what is shown last changed; now, where that is not known. Not there where nothing is."
    ),
    "Cache-Control": _header("That the answer is to be asked for anew.", required=True),
    "WWW-Authenticate": _header("Where to get a token, with auth_strategy = keystone."),
    "Retry-After": _header(
        "The seconds after which it is worth while to ask again.", required=True, pattern="^[0-9]+$"
    ),
}
