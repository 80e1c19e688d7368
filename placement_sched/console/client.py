# SPDX-License-Identifier: Apache-2.0
"""Client of the APIs for the pages: HTTP requests to the same application.

Authentication, API policy rules, validation and errors apply to the pages as to any program,
with the token of the person who has signed in.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import flask
import orjson
from werkzeug.test import run_wsgi_app

from placement_sched.api.request_context import REQUEST_ID, context_of
from placement_sched.api.serving import set_body
from placement_sched.console.forms import LABELS
from placement_sched.model.document import Json
from placement_sched.schemas.faults import expectation, plain_reason, unquote

#: Replacements for the beginnings of errors without a JSON path.
_PREFIXES = {"overrides: ": "Options: ", "policy: ": "Policy: ", "Malformed JSON: ": ""}
#: Labels of form fields by patterns of JSON paths. The first match counts.
_LABELS = {
    r"request_spec\.flavor\.vcpus": LABELS["vcpus"],
    r"request_spec\.flavor\.memory_mb": LABELS["ram"],
    r"request_spec\.flavor\.root_gb": LABELS["disk"],
    r"request_spec\.flavor\.extra_specs.*": LABELS["extra_specs"],
    r"request_spec\.flavor.*|flavors?(\[\d+\])?": LABELS["flavor"],
    r"request_spec\.image\.properties.*": LABELS["image_properties"],
    r"request_spec\.image.*": LABELS["image"],
    r"request_spec\.num_instances": LABELS["count"],
    r"request_spec\.availability_zone": LABELS["zone"],
    r"request_spec\.project_id|project_id": LABELS["project"],
    r"request_spec\.scheduler_hints.*": LABELS["hints"],
    r"request_spec\.force_hosts.*": LABELS["force_hosts"],
    r"request_spec\.ignore_hosts.*": LABELS["ignore_hosts"],
    r"per": "Count per",
    r"moves": "Moves",
    r"request_id": "Request id",
    r"host": "Chosen host",
    r"refused": "Rejected host",
}


def with_form_labels(error: Json) -> str:
    """Return the text of an API's error with form labels in place of JSON paths."""
    detail = str(error.get("detail") or error.get("message") or "")
    if fault := error.get("fault"):
        label, expected = _get_label(fault["path"]), expectation(fault)
        if expected is not None:
            return f"{label} {unquote(expected.value)}: expected {expected.expected}"
        return f"{label}: {plain_reason(fault)}"
    for prefix, replacement in _PREFIXES.items():
        if detail.startswith(prefix):
            return replacement + detail.removeprefix(prefix)
    return detail


def _get_label(json_path: str) -> str:
    """Return the label of the field with this JSON path, else the words of the path."""
    path = json_path.removeprefix("$").removeprefix(".")
    change = re.fullmatch(r"changes\[(\d+)\](.*)", path)
    if change is not None:
        key = _split_path(re.sub(r"\[\d+\]", "", change[2]))
        return f"Changes, line {int(change[1]) + 1}{', ' * bool(key)}{key}"
    option = re.fullmatch(r"overrides(?:\['(.*)'\]|\.(.*))", path)
    if option is not None:
        return f"Options, {option[1] or option[2]}"
    for pattern, label in _LABELS.items():
        if re.fullmatch(pattern, path):
            return label
    text = _split_path(path)
    return text[:1].upper() + text[1:] if text else "The request"


def _split_path(path: str) -> str:
    return " ".join(re.findall(r"[a-zA-Z0-9-]+", path))


#: Keys of the WSGI environment that describe the connection.
_CONNECTION_KEYS = (
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "HTTP_HOST",
)
#: Headers that request the newest microversions.
_VERSIONS = {
    "HTTP_OPENSTACK_API_VERSION": "placement latest, compute latest",
    "HTTP_X_OPENSTACK_NOVA_API_VERSION": "latest",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of an API with any status."""

    status: int
    content_type: str
    body: bytes

    def json(self) -> Json:
        """Return the decoded body, an empty object if there is no body."""
        document: Json = orjson.loads(self.body) if self.body else {}
        return document


class ApiRefused(Exception):
    """An error response of an API.

    ``title`` is the phrase of the status, ``detail`` the text with form labels, and ``error`` the
    whole error object, empty if there is none. The error ``no_valid_host`` has a funnel.
    """

    def __init__(self, reply: Reply) -> None:
        self.status = HTTPStatus(reply.status)
        self.title = self.status.phrase
        self.error = _parse_error(reply)
        self.detail = with_form_labels(self.error) or self.title
        super().__init__(self.detail)


class SignInNeeded(Exception):
    """A response with status 401. The pages show the sign-in form."""


class ApiClient:
    """Client of the APIs of the application that serves the current request.

    ``token`` is None before sign-in. The APIs then respond with 401.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        """Get the document at ``path`` (``/scheduler/v1/decisions``).

        A list in ``query`` is sent as repeated parameters, None is not sent. Raises
        :class:`ApiRefused` if the API responds with an error.
        """
        pairs = {key: value for key, value in (query or {}).items() if value is not None}
        return _decode_reply(self.send("GET", path, urlencode(pairs, doseq=True)))

    def ask(self, path: str, body: Mapping[str, Any]) -> Json:
        """Send a POST request that changes nothing and return the decoded response.

        Raises :class:`ApiRefused` if the API responds with an error.
        """
        # orjson fails on large integers. The API rejects them with a message.
        return _decode_reply(self.send("POST", path, body=json.dumps(body).encode()))

    def aggregate_names(self) -> dict[str, str]:
        """Get the names of host aggregates by uuid, none if the caller may not list them."""
        try:
            document = self.get("/compute/v2.1/os-aggregates")
        except ApiRefused:
            return {}
        return {item["uuid"]: item["name"] for item in document["aggregates"]}

    def send(self, method: str, path: str, query: str = "", body: bytes = b"") -> Reply:
        """Send a request to an API. ``query`` is an encoded query string."""
        outer = flask.request.environ
        context = context_of(outer)
        environ: dict[str, Any] = {
            **{key: outer[key] for key in _CONNECTION_KEYS if key in outer},
            **{key: value for key, value in outer.items() if key.startswith("wsgi.")},
            **_VERSIONS,
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": outer.get("SCRIPT_NAME", ""),
            # WSGI: each UTF-8 byte is a character.
            "PATH_INFO": path.encode().decode("latin-1"),
            "QUERY_STRING": query,
            "HTTP_ACCEPT": "application/json",
        }
        set_body(environ, body, len(body))
        if body:
            environ["CONTENT_TYPE"] = "application/json"
        if self._token is not None:
            environ["HTTP_X_AUTH_TOKEN"] = self._token
        if context is not None and context.ids.request_id:
            environ[f"HTTP_{REQUEST_ID.upper().replace('-', '_')}"] = context.ids.request_id
        chunks, status, headers = run_wsgi_app(flask.current_app.wsgi_app, environ, buffered=True)
        return Reply(int(status[:3]), headers.get("Content-Type", ""), b"".join(chunks))


def join_path(*parts: str) -> str:
    """Join path segments, which may contain any character.

    WSGI paths are decoded, so that only a slash within a segment must be encoded.
    """
    return "/".join(("", *(part.replace("/", quote("/", safe="")) for part in parts)))


def _decode_reply(reply: Reply) -> Json:
    if reply.status == HTTPStatus.UNAUTHORIZED:
        raise SignInNeeded
    if reply.status >= HTTPStatus.BAD_REQUEST:
        raise ApiRefused(reply)
    return reply.json()


def _parse_error(reply: Reply) -> Json:
    """Return the error object of a response of any of the APIs."""
    try:
        document = reply.json()
    except orjson.JSONDecodeError:
        return {"detail": reply.body.decode(errors="replace")[:1000]}
    if "errors" in document:
        error: Json = document["errors"][0]
        return error
    objects = [value for value in document.values() if isinstance(value, dict)]
    return objects[0] if objects else document
