# SPDX-License-Identifier: Apache-2.0
"""Client that sends the requests of pages to the APIs of this application.

Authentication, API policy rules, validation and errors apply to the pages as to any program,
with the token of the person who has signed in.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import flask
import orjson

from placement_sched.api.in_process import Reply, call_application
from placement_sched.api.middleware import REQUEST_ID, find_context
from placement_sched.api.request import STATUS_PHRASES
from placement_sched.extensions.console.forms import LABELS
from placement_sched.model.constraint import OTHER_TREE
from placement_sched.model.document import Json, PathStep, find_name, join_keys, split_json_path
from placement_sched.model.short_forms import FORM_FIELD_BY_PATH
from placement_sched.schemas.validation import describe_fault

#: Labels of form fields, by the keys of their values in requests.
_LABELS = {
    **{keys: LABELS[value] for keys, value in FORM_FIELD_BY_PATH.items()},
    "flavor": LABELS["flavor"],
    "project_id": LABELS["project"],
    "per": "Count per",
    "host_failures": "Failures",
    "within": "Within",
    "moves": "Moves",
    "request_id": "Request id",
    "host": "Chosen host",
    "rejected": "Rejected host",
}


def with_form_labels(error: Json) -> str:
    """Replace JSON paths in the text of an API's error by form labels."""
    if fault := error.get("fault"):
        return f"{_get_label(split_json_path(fault['path']))}: {describe_fault(fault)}"
    return str(error.get("detail") or error.get("message") or "")


def _get_label(steps: Sequence[PathStep]) -> str:
    """Return the form label of a JSON path, else the words of the path."""
    match steps:
        case ["changes", int(index), *inner]:
            keys = join_keys(inner, " ")
            return f"Changes, line {index + 1}{', ' * bool(keys)}{keys}"
        case ["overrides", *option]:
            return ", ".join(["Options", *map(str, option)])
    if named := find_name(steps, _LABELS):
        return named[0]
    text = " ".join(re.findall(r"[a-zA-Z0-9-]+", " ".join(map(str, steps))))
    return text[:1].upper() + text[1:] if text else "The request"


#: Maximum number of requested hosts whose names are read for a page.
_MAX_TREES = 20
#: Headers that request the newest microversions.
_VERSIONS = {
    "OpenStack-API-Version": "placement latest, compute latest",
    "X-OpenStack-Nova-API-Version": "latest",
}


class ApiError(Exception):
    """An error response of an API.

    ``title`` is the phrase of the status, ``detail`` the text with form labels, and ``error`` the
    whole error object, or an empty object. The object of ``no_valid_host`` includes a funnel.
    """

    def __init__(self, reply: Reply) -> None:
        self.status = HTTPStatus(reply.status)
        self.title = STATUS_PHRASES[reply.status]
        self.error = _parse_error(reply)
        self.detail = with_form_labels(self.error) or self.title
        super().__init__(self.detail)


class SignInNeeded(Exception):
    """Error for a response with status 401, answered with the sign-in form."""


class ApiClient:
    """Client of the APIs of the application that serves the current request.

    ``token`` is None before sign-in. The APIs then respond with 401.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        """Get the document at ``path`` (``/scheduler/v1/decisions``).

        A list in ``query`` is sent as repeated parameters, None is not sent. Raises
        :class:`ApiError` if the API responds with an error.
        """
        pairs = {key: value for key, value in (query or {}).items() if value is not None}
        return _decode_reply(self.send("GET", path, urlencode(pairs, doseq=True)))

    def post(self, path: str, body: Mapping[str, Any]) -> Json:
        """Send a read-only POST request and return the decoded response.

        Raises :class:`ApiError` if the API responds with an error.
        """
        # orjson fails on large integers. The API rejects them with a message.
        return _decode_reply(self.send("POST", path, body=json.dumps(body).encode()))

    def is_allowed(self, method: str, path: str) -> bool:
        """Return whether the API policy rules allow a request.

        The request has an unknown parameter. The API checks the rules first, and then rejects it,
        unless its route ignores parameters.
        Raises :class:`SignInNeeded` without a valid token, and :class:`ApiError` if the API fails.
        """
        reply = self.send(method, path, "unknown=")
        if reply.status == HTTPStatus.UNAUTHORIZED:
            raise SignInNeeded
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ApiError(reply)
        return reply.status != HTTPStatus.FORBIDDEN

    def map_aggregate_names(self) -> dict[str, str]:
        """Map aggregate uuids to names, empty if the caller may not list them."""
        aggregates = self.list_visible("/compute/v2.1/os-aggregates", "aggregates")
        return {item["uuid"]: item["name"] for item in aggregates}

    def map_names(self, *documents: Json) -> dict[str, str]:
        """Map uuids of aggregates, and of hosts that requests name, to names.

        ``documents`` are explanations, decisions and counted reasons.
        """
        uuids = {uuid for document in documents for uuid in _iterate_trees(document)}
        names = self.map_aggregate_names()
        for uuid in sorted(uuids)[:_MAX_TREES]:
            with suppress(ApiError):
                names[uuid] = self.get(join_path("placement", "resource_providers", uuid))["name"]
        return names

    def list_zone_names(self) -> list[str]:
        """Return names of zones, empty if the caller may not list them."""
        path = "/compute/v2.1/os-availability-zone"
        return [zone["zoneName"] for zone in self.list_visible(path, "availabilityZoneInfo")]

    def list_visible(
        self, path: str, key: str, query: Mapping[str, Any] | None = None
    ) -> list[Json]:
        """Return items of a document, empty if the caller may not list them."""
        try:
            items: list[Json] = self.get(path, query)[key]
        except ApiError:
            return []
        return items

    def send(self, method: str, path: str, query: str = "", body: bytes = b"") -> Reply:
        """Send a request to an API.

        ``query`` is an encoded query string.
        """
        outer = flask.request.environ
        context = find_context(outer)
        headers = {**_VERSIONS, "Accept": "application/json"}
        if body:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["X-Auth-Token"] = self._token
        if context is not None and context.ids.request_id:
            headers[REQUEST_ID] = context.ids.request_id
        url = f"{quote(path)}?{query}"
        application = flask.current_app.wsgi_app
        return call_application(application, method, url, body=body, headers=headers, outer=outer)


def _iterate_trees(document: Json) -> Iterator[str]:
    """Yield the uuids of the hosts that the request of a document names."""
    candidates = (document.get("funnel") or {}).get("allocation_candidates", {})
    for step in candidates.get("steps", ()):
        yield from step.get("trees", ())
    for prefix in ("", "reason_"):
        if document.get(f"{prefix}kind") == OTHER_TREE and document[f"{prefix}subject"]:
            yield document[f"{prefix}subject"]


def join_path(*parts: str) -> str:
    """Join path segments, which may contain any character.

    Only a slash within a segment is encoded, because WSGI paths are decoded.
    """
    return "/".join(("", *(part.replace("/", quote("/", safe="")) for part in parts)))


def _decode_reply(reply: Reply) -> Json:
    if reply.status == HTTPStatus.UNAUTHORIZED:
        raise SignInNeeded
    if reply.status >= HTTPStatus.BAD_REQUEST:
        raise ApiError(reply)
    return reply.json()


def _parse_error(reply: Reply) -> Json:
    """Return the error object in a response of any API."""
    try:
        document = reply.json()
    except orjson.JSONDecodeError:
        return {"detail": reply.body.decode(errors="replace")[:1000]}
    if "errors" in document:
        error: Json = document["errors"][0]
        return error
    objects = [value for value in document.values() if isinstance(value, dict)]
    return objects[0] if objects else document
