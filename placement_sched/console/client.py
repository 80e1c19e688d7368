"""How pages ask the APIs: each question is an HTTP request to the same application.

There is no other way in: authentication, policy rules, validation and errors are those that any
program meets, under the token of the person who looks at the page.
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
from placement_sched.api.serving import complete
from placement_sched.console.forms import LABELS
from placement_sched.model.document import Json
from placement_sched.schemas.faults import bare, expectation, plain_reason

#: What begins the others: the name of a key, or what was done with the text.
_OPENINGS = {"overrides: ": "Options: ", "policy: ": "Policy: ", "Malformed JSON: ": ""}
#: Labels of fields by the places of their values; the first that fits counts.
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


def in_form_words(error: Json) -> str:
    """Return an API's error, with the label of the field in place of its JSON path."""
    detail = str(error.get("detail") or error.get("message") or "")
    if fault := error.get("fault"):
        label, wrong = _label(fault["path"]), expectation(fault)
        if wrong is not None:
            return f"{label} {bare(wrong.value)}: expected {wrong.expected}"
        return f"{label}: {plain_reason(fault)}"
    for opening, words in _OPENINGS.items():
        if detail.startswith(opening):
            return words + detail.removeprefix(opening)
    return detail


def _label(place: str) -> str:
    """Return the label of the field whose value has this JSON path; else the path in words."""
    path = place.removeprefix("$").removeprefix(".")
    change = re.fullmatch(r"changes\[(\d+)\](.*)", path)
    if change is not None:
        within = _words(re.sub(r"\[\d+\]", "", change[2]))
        return f"Changes, line {int(change[1]) + 1}{', ' * bool(within)}{within}"
    option = re.fullmatch(r"overrides(?:\['(.*)'\]|\.(.*))", path)
    if option is not None:
        return f"Options, {option[1] or option[2]}"
    for pattern, label in _LABELS.items():
        if re.fullmatch(pattern, path):
            return label
    words = _words(path)
    return words[:1].upper() + words[1:] if words else "The request"


def _words(path: str) -> str:
    return " ".join(re.findall(r"[a-zA-Z0-9-]+", path))


#: What an environment says of the connection, which the request to the API shares.
_OF_CONNECTION = (
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "HTTP_HOST",
)
#: The newest versions of the APIs that have several.
_VERSIONS = {
    "HTTP_OPENSTACK_API_VERSION": "placement latest, compute latest",
    "HTTP_X_OPENSTACK_NOVA_API_VERSION": "latest",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What an API answered, whatever its status."""

    status: int
    content_type: str
    body: bytes

    def json(self) -> Json:
        """Return the decoded body, an empty object where there is none."""
        document: Json = orjson.loads(self.body) if self.body else {}
        return document


class ApiRefused(Exception):
    """An API answered with an error.

    ``title`` is the phrase of its status, ``detail`` what the API says, in the words of forms,
    ``error`` the whole error object, where there is one (``no_valid_host`` has a funnel in it).
    """

    def __init__(self, reply: Reply) -> None:
        self.status = HTTPStatus(reply.status)
        self.title = self.status.phrase
        self.error = _error_of(reply)
        self.detail = in_form_words(self.error) or self.title
        super().__init__(self.detail)


class SignInNeeded(Exception):
    """An API answered 401: without a valid token no page shows anything."""


class Caller:
    """Asks the APIs of the application that serves the current request, with one token.

    ``token`` is None before the person signs in: the APIs answer 401 then.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        """Return the document at ``path`` (``/scheduler/v1/decisions``).

        A value of ``query`` that is a list is sent once for each item, None not at all. Raises
        :class:`ApiRefused` where the API answers with an error.
        """
        given = {key: value for key, value in (query or {}).items() if value is not None}
        return _accepted(self.send("GET", path, urlencode(given, doseq=True)))

    def ask(self, path: str, body: Mapping[str, Any]) -> Json:
        """Return the answer to a question that is sent as a POST, which changes nothing.

        Raises :class:`ApiRefused` where the API answers with an error.
        """
        # Not orjson's: a person may type a number of any length, which the API refuses in words.
        return _accepted(self.send("POST", path, body=json.dumps(body).encode()))

    def aggregate_names(self) -> dict[str, str]:
        """Return the names of host aggregates by uuid; none where this caller may not see them."""
        try:
            found = self.get("/compute/v2.1/os-aggregates")
        except ApiRefused:
            return {}
        return {one["uuid"]: one["name"] for one in found["aggregates"]}

    def send(self, method: str, path: str, query: str = "", body: bytes = b"") -> Reply:
        """Return what the API answers to a request; ``query`` is encoded already."""
        outer = flask.request.environ
        known = context_of(outer)
        environ: dict[str, Any] = {
            **{key: outer[key] for key in _OF_CONNECTION if key in outer},
            **{key: value for key, value in outer.items() if key.startswith("wsgi.")},
            **_VERSIONS,
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": outer.get("SCRIPT_NAME", ""),
            # As WSGI has it: the bytes of UTF-8, each as a character.
            "PATH_INFO": path.encode().decode("latin-1"),
            "QUERY_STRING": query,
            "HTTP_ACCEPT": "application/json",
        }
        complete(environ, body, len(body))
        if body:
            environ["CONTENT_TYPE"] = "application/json"
        if self._token is not None:
            environ["HTTP_X_AUTH_TOKEN"] = self._token
        if known is not None and known.ids.request_id:
            environ[f"HTTP_{REQUEST_ID.upper().replace('-', '_')}"] = known.ids.request_id
        answer, status, headers = run_wsgi_app(flask.current_app.wsgi_app, environ, buffered=True)
        return Reply(int(status[:3]), headers.get("Content-Type", ""), b"".join(answer))


def path_of(*parts: str) -> str:
    """Return a path of these parts, each of which may hold any character but a slash.

    A WSGI environment has paths decoded: only a slash within a part would be taken for another.
    """
    return "/".join(("", *(part.replace("/", quote("/", safe="")) for part in parts)))


def _accepted(reply: Reply) -> Json:
    if reply.status == HTTPStatus.UNAUTHORIZED:
        raise SignInNeeded
    if reply.status >= HTTPStatus.BAD_REQUEST:
        raise ApiRefused(reply)
    return reply.json()


def _error_of(reply: Reply) -> Json:
    """Return the error object in an answer, in the shape of any of the APIs."""
    try:
        document = reply.json()
    except orjson.JSONDecodeError:
        return {"detail": reply.body.decode(errors="replace")[:1000]}
    if "errors" in document:
        first: Json = document["errors"][0]
        return first
    within = [value for value in document.values() if isinstance(value, dict)]
    return within[0] if within else document
