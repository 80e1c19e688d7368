"""Errors that are answered before it is known which API was asked, in placement's shape."""

from http import HTTPStatus
from typing import Any

from placement_sched.api.request_context import context_of


def plain_error(environ: dict[str, Any], status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the body of an error, with the ids of the request where it has any."""
    told: dict[str, Any] = {"status": int(status), "title": status.phrase, "detail": detail}
    if (known := context_of(environ)) is not None:
        told.update(known.ids.as_json())
    return {"errors": [told]}
