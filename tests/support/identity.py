# SPDX-License-Identifier: Apache-2.0
"""A fake keystone that issues and validates tokens, over HTTP on the loopback address."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from tests.support.loopback import send_json, serve_application

USER, PASSWORD = "placement", "open sesame"
KEYSTONE_CONFIG = """
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {keystone}/v3
username = {user}
password = {password}
user_domain_name = Default
project_domain_name = Default
project_name = service
www_authenticate_uri = https://keystone.example.com/v3
http_request_max_retries = 0
token_cache_time = -1
"""


class Identity:
    """Identity API v3, as far as keystonemiddleware uses it."""

    def __init__(self) -> None:
        self.url = ""
        #: Number of requests to validate a token.
        self.validations = 0
        #: URLs of the other services of the catalogue, by type.
        self.services: dict[str, str] = {}
        self._tokens: dict[str, dict[str, Any]] = {}

    def issue_token(
        self, user: str, project: str | None, *roles: str, seconds: float = 3600, **scope: Any
    ) -> str:
        """Return a token of ``user``, in a project or in another ``scope`` of the v3 API.

        It expires in ``seconds``. A negative number makes an expired token.
        """
        now = datetime.now(UTC)
        body = {
            "methods": ["password"],
            "user": {"id": user, "name": user, "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": role, "name": role} for role in roles],
            "issued_at": (now - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            "expires_at": (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            "catalog": [_build_catalogue_entry("identity", "keystone", self.url)]
            + [_build_catalogue_entry(kind, kind, url) for kind, url in self.services.items()],
            **scope,
        }
        if project is not None:
            domain = {"id": "default", "name": "Default"}
            body["project"] = {"id": project, "name": project, "domain": domain}
        token = uuid4().hex
        self._tokens[token] = body
        return token

    def revoke_token(self, token: str) -> None:
        """Make a token invalid."""
        del self._tokens[token]

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].rstrip("/")
        if path == "/v3/auth/tokens" and method == "POST":
            return self._log_in(environ, start_response)
        if path == "/v3/auth/tokens" and method == "GET":
            return self._describe_token(environ, start_response)
        if path == "/v3/auth/tokens" and method == "DELETE":
            return self._respond_to_revocation(environ, start_response)
        if path in {"", "/v3"}:
            links = [{"rel": "self", "href": f"{self.url}/v3/"}]
            version = {"id": "v3.14", "status": "stable", "links": links, "media-types": []}
            if path:
                return send_json(start_response, "200 OK", {"version": version})
            return send_json(start_response, "300 Choices", {"versions": {"values": [version]}})
        return send_json(start_response, "404 Not Found", {})

    def _log_in(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        sent = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        (method,) = sent["auth"]["identity"]["methods"]
        login = sent["auth"]["identity"][method]
        is_right = {
            "password": lambda: (login["user"]["name"], login["user"]["password"]),
            "application_credential": lambda: (login["id"], login["secret"]),
            "token": lambda: (USER, PASSWORD if self.is_valid(login["id"]) else ""),
        }
        if is_right[method]() != (USER, PASSWORD):
            return send_json(start_response, "401 Unauthorized", {})
        token = self.issue_token(USER, "service", "service")
        return self._respond_with_token(start_response, "201 Created", token)

    def _describe_token(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.validations += 1
        if not self.is_valid(environ.get("HTTP_X_AUTH_TOKEN")):
            return send_json(start_response, "401 Unauthorized", {})
        subject = environ.get("HTTP_X_SUBJECT_TOKEN")
        anyway = parse_qs(environ["QUERY_STRING"]).get("allow_expired") == ["1"]
        if not (self.is_valid(subject) or (anyway and subject in self._tokens)):
            return send_json(start_response, "404 Not Found", {})
        return self._respond_with_token(start_response, "200 OK", subject)

    def _respond_to_revocation(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        subject = environ.get("HTTP_X_SUBJECT_TOKEN", "")
        if not self.is_valid(environ.get("HTTP_X_AUTH_TOKEN")):
            return send_json(start_response, "401 Unauthorized", {})
        if not self.is_valid(subject):
            return send_json(start_response, "404 Not Found", {})
        self.revoke_token(subject)
        start_response("204 No Content", [])
        return []

    def is_valid(self, token: str | None) -> bool:
        """Return whether a token was issued and neither revoked nor expired."""
        if token not in self._tokens:
            return False
        return datetime.fromisoformat(self._tokens[token]["expires_at"]) > datetime.now(UTC)

    def _respond_with_token(self, start_response: Any, status: str, token: str) -> list[bytes]:
        return send_json(
            start_response, status, {"token": self._tokens[token]}, ("X-Subject-Token", token)
        )


def _build_catalogue_entry(kind: str, name: str, url: str) -> dict[str, Any]:
    endpoints = [
        {"id": each, "interface": each, "region": "here", "region_id": "here", "url": url}
        for each in ("public", "internal", "admin")
    ]
    return {"type": kind, "name": name, "id": name[0], "endpoints": endpoints}


@contextmanager
def run_keystone() -> Iterator[Identity]:
    identity = Identity()
    with serve_application(identity) as identity.url:
        yield identity


def build_keystone_config(url: str, password: str = PASSWORD, **replaced: str) -> str:
    """Return a configuration with the keystone at ``url`` and with some options replaced."""
    text = KEYSTONE_CONFIG.format(keystone=url, user=USER, password=password)
    for name, line in replaced.items():
        text = text.replace(f"{name} = ", f"{line}\n#")
    return text
