"""The body of a request: of a type that its route takes, decoded, and held against its schema."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from werkzeug.wrappers import Request

from placement_sched.api.errors import UnsupportedMediaType
from placement_sched.api.microversion import Version
from placement_sched.api.route import Route
from placement_sched.api.services import Services
from placement_sched.errors import Invalid

# An escaped NUL in a JSON text: an odd number of backslashes, then u0000.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def refuse_unlabelled(request: Request) -> None:
    """Raise :class:`Invalid` for a body of no type, or of a length that is no number."""
    length = request.environ.get("CONTENT_LENGTH")
    if not length:
        return
    try:
        int(length)
    except ValueError:  # where a server lets it by
        raise Invalid(f"content-length header must be an integer. Got: {length}") from None
    if not request.content_type and request.content_length:
        raise Invalid("content-type header required: the body is of no type.")


def refuse_other_types(request: Request, route: Route) -> None:
    """Raise :class:`UnsupportedMediaType` for a body of a type that ``route`` does not take."""
    takes_body = route.data or route.body is not None
    if takes_body and request.mimetype not in route.content_types:
        raise UnsupportedMediaType(
            f"The media type {request.mimetype or None} is not supported, "
            f"use {' or '.join(route.content_types)}"
        )


def route_of_action(request: Request, serving: Sequence[Route]) -> Route:
    """Return the route that the one key of the body names; raise :class:`Invalid` for none."""
    document = _decoded(request, keep=True)
    if not isinstance(document, dict) or len(document) != 1:
        raise Invalid("Malformed request body: an object with exactly one key, the action")
    (action,) = document
    for route in serving:
        if route.action == action:
            return route
    raise Invalid(f"There is no such action: {action}")


def body_of(
    request: Request,
    route: Route,
    version: Version,
    services: Services,
    arguments: Mapping[str, str],
) -> Any:
    """Return the body as ``Call.body`` has it.

    Raises :class:`Invalid` where it is at fault; but where its subject is not there, that is what
    is told.
    """
    try:
        return _body(request, route, version)
    except Invalid:
        if route.subject is not None:
            route.subject(services, **arguments)
        raise


def _body(request: Request, route: Route, version: Version) -> Any:
    if route.data:
        return request.content_length or 0  # none of which is kept
    if route.body is None:
        return None
    document = _decoded(request)
    schema = route.body.at(version)
    if schema is not None:
        schema.check(document, "JSON does not validate")
    return document


def _decoded(request: Request, *, keep: bool = False) -> Any:
    """Return the body as JSON; ``keep`` leaves its bytes to be read once more."""
    data = request.get_data(cache=keep)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as fault:
        raise Invalid(f"Malformed JSON: {fault}") from None
    if _NUL.search(data):
        # PostgreSQL keeps no such text, and no name has a use for it.
        raise Invalid("Malformed JSON: a NUL character (\\u0000) is not taken")
    return document
