"""Signing in: with keystone by a form that gets a token, with noauth2 not at all.

The token stays in a cookie that scripts cannot read and that no other site can let a browser send;
it is never part of an address, and no log has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import flask
from flask import request
from keystoneauth1 import exceptions as keystone
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from placement_sched.console.guards import check_same_origin, is_encrypted
from placement_sched.console.page import page
from placement_sched.settings import Settings
from placement_sched.settings.options.api import KEYSTONE_GROUP

#: Cookies: the token, and the name to show, which decides on nothing.
TOKEN, PERSON = "placement_sched_token", "placement_sched_person"
#: Whom the pages act as with noauth2.
ADMIN = "admin"
#: Seconds to wait for keystone.
_PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Person:
    """Who looks at the pages: the token, or None, the name to show, and whether it can be left."""

    token: str | None
    name: str
    signs_out: bool


class Doors:
    """Signs people in and out, as ``[api] auth_strategy`` says."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_keystone = settings.api.auth_strategy == "keystone"

    def person(self) -> Person:
        """Return who sent the current request."""
        if not self._by_keystone:
            return Person(ADMIN, f"{ADMIN} (noauth2)", signs_out=False)
        token = request.cookies.get(TOKEN)
        return Person(token, request.cookies.get(PERSON, "") if token else "", bool(token))

    def views(self) -> Mapping[str, Any]:
        """Return the views by path below ``/console``."""
        return {"/sign-in": self.sign_in, "/sign-out": self.sign_out}

    def sign_in(self) -> flask.Response:
        """Show the form; with what was typed into it, get a token and go where one came from."""
        if not self._by_keystone:
            return self._gone_to(_next(""))
        if request.method != "POST":
            return self._form({"next": request.args.get("next", "")})
        check_same_origin(request)
        form = request.form
        if not is_encrypted(request):
            refusal = "A password is not sent without TLS: open this page by https"
            return self._form(form, refusal, HTTPStatus.FORBIDDEN)
        try:
            access = self._authenticated(form)
        except keystone.Unauthorized:
            refusal = "Keystone does not know this user with this password and scope"
            return self._form(form, refusal, HTTPStatus.UNAUTHORIZED)
        except keystone.ClientException as failure:
            refusal = f"Keystone does not answer as it should: {failure}"
            return self._form(form, refusal, HTTPStatus.SERVICE_UNAVAILABLE)
        response = self._gone_to(_next(form.get("next", "")))
        left = (access.expires.astimezone(UTC) - datetime.now(UTC)).total_seconds()
        scope = access.project_name or ("the system" if access.system_scoped else "no project")
        self._set(response, TOKEN, access.auth_token, int(left))
        self._set(response, PERSON, f"{access.username}, {scope}", int(left))
        return response

    def sign_out(self) -> flask.Response:
        """Forget the token."""
        check_same_origin(request)
        response = self._gone_to(f"{request.root_path}/console/sign-in")
        if request.method == "POST":
            self._set(response, TOKEN, "", 0)
            self._set(response, PERSON, "", 0)
        return response

    def asked_to_sign_in(self) -> flask.Response:
        """Return the answer to one without a valid token: to the form, and back from there."""
        there = request.full_path.rstrip("?") if request.method == "GET" else ""
        query = f"?{urlencode({'next': there})}" if there else ""
        return self._gone_to(f"{request.root_path}/console/sign-in{query}")

    def _authenticated(self, form: Mapping[str, str]) -> Any:
        options = self._settings.conf[KEYSTONE_GROUP]
        domain = form.get("domain") or self._settings.console.default_domain
        scope: dict[str, Any] = {"system_scope": "all"}
        if form.get("project"):
            named = form.get("project_domain") or domain
            scope = {"project_name": form["project"], "project_domain_name": named}
        plugin = v3.Password(
            auth_url=self._address(),
            username=form.get("user", ""),
            password=form.get("password", ""),
            user_domain_name=domain,
            **scope,
        )
        verified = False if options.insecure else (options.cafile or True)
        return plugin.get_access(Session(verify=verified, timeout=_PATIENCE))

    def _address(self) -> str:
        options = self._settings.conf[KEYSTONE_GROUP]
        return str(
            self._settings.console.auth_url
            or options.www_authenticate_uri
            or getattr(options, "auth_url", "")
            or ""
        )

    def _form(
        self, typed: Mapping[str, str], refusal: str = "", status: int = HTTPStatus.OK
    ) -> flask.Response:
        shown = {key: value for key, value in typed.items() if key != "password"}
        values = {
            "typed": {"domain": self._settings.console.default_domain, **shown},
            "refusal": refusal,
            "keystone": self._address(),
        }
        return page("sign_in.html", "Sign in", values, status=status)

    def _set(self, response: flask.Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=max(seconds, 0),
            path=request.root_path or "/",
            secure=True,
            httponly=True,
            samesite="Strict",
        )

    @staticmethod
    def _gone_to(address: str) -> flask.Response:
        response = flask.Response(status=HTTPStatus.SEE_OTHER)
        response.headers["Location"] = address
        return response


def _next(there: str) -> str:
    """Return where to go after signing in: a path of the console, never another site."""
    own = f"{request.root_path}/console/"
    home = f"{request.root_path}/?"
    within = there.startswith((own, home)) and there.isprintable() and "\\" not in there
    return there if within else own
