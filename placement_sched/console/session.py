"""Signing in: with keystone by a form that gets a token, with noauth2 not at all.

The token stays in a cookie that scripts cannot read and that no other site can let a browser send;
it is never part of an address, and no log has it.
"""

import logging
import re
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

from placement_sched.config.options.api import KEYSTONE_GROUP
from placement_sched.config.settings import Settings
from placement_sched.console.page import check_same_origin, is_encrypted, page

LOG = logging.getLogger(__name__)
#: Cookies: the token, and the name to show, which decides on nothing.
TOKEN, PERSON = "placement_sched_token", "placement_sched_person"
#: Whom the pages act as with noauth2.
ADMIN = "admin"
#: Seconds to wait for keystone, and where the person waits for nothing but that.
_PATIENCE, _BRIEF = 20.0, 5.0
#: Seconds for which the name is kept longer than the token, to say that signing in is over.
_REMEMBERED = 24 * 3600
#: What can be a token: it becomes a header of requests to keystone.
_TOKEN = re.compile(r"[!-~]+")
_ENDED = "Your sign-in has expired, or is no longer valid. Sign in again."


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
        token = request.cookies.get(_cookie(TOKEN), "")
        if not _TOKEN.fullmatch(token):
            return Person(None, "", signs_out=False)
        return Person(token, request.cookies.get(_cookie(PERSON), ""), signs_out=True)

    def views(self) -> Mapping[str, Any]:
        """Return the views by path below ``/console``."""
        return {"/sign-in": self.sign_in, "/sign-out": self.sign_out}

    def sign_in(self) -> flask.Response:
        """Show the form; with what was typed into it, get a token and go where one came from."""
        if not self._by_keystone:
            return self._gone_to(_next(""))
        if request.method != "POST":
            notice = _ENDED if "ended" in request.args else ""
            return self._form({"next": request.args.get("next", "")}, notice)
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
        left = int((access.expires.astimezone(UTC) - datetime.now(UTC)).total_seconds())
        scope = access.project_name or ("the system" if access.system_scoped else "no project")
        _set(response, TOKEN, access.auth_token, left)
        _set(response, PERSON, f"{access.username}, {scope}", left + _REMEMBERED)
        return response

    def sign_out(self) -> flask.Response:
        """Forget the token, and have keystone revoke it."""
        check_same_origin(request)
        response = self._gone_to(f"{request.root_path}/console/sign-in")
        if request.method == "POST":
            token = self.person().token
            if self._by_keystone and token is not None:
                self._revoke(token)
            _forget(response)
        return response

    def asked_to_sign_in(self) -> flask.Response:
        """Return the answer to one without a valid token: to the form, and back from there.

        Cookies that led to nothing are removed, and the form says that signing in is over.
        """
        there = request.full_path.rstrip("?") if request.method in {"GET", "HEAD"} else ""
        query = {"next": there} if there else {}
        ended = any(_cookie(name) in request.cookies for name in (TOKEN, PERSON))
        if ended:
            query["ended"] = "1"
        sent = f"?{urlencode(query)}" if query else ""
        response = self._gone_to(f"{request.root_path}/console/sign-in{sent}")
        if ended:
            _forget(response)
        return response

    def _authenticated(self, form: Mapping[str, str]) -> Any:
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
        return plugin.get_access(self._session(_PATIENCE))

    def _revoke(self, token: str) -> None:
        """Ask keystone to revoke a token; who signs out is not kept by a keystone that is away."""
        root = self._address().rstrip("/")
        address = f"{root.removesuffix('/v3')}/v3/auth/tokens"
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        try:
            session = self._session(_BRIEF)
            session.delete(address, authenticated=False, headers=headers, log=False)
        except (keystone.Unauthorized, keystone.NotFound):
            return  # it is not valid any more
        except keystone.ClientException as failure:
            LOG.warning("keystone did not revoke the token of a person who signed out: %s", failure)

    def _session(self, patience: float) -> Session:
        options = self._settings.conf[KEYSTONE_GROUP]
        verified = False if options.insecure else (options.cafile or True)
        return Session(verify=verified, timeout=patience)

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

    @staticmethod
    def _gone_to(address: str) -> flask.Response:
        response = flask.Response(status=HTTPStatus.SEE_OTHER)
        response.headers["Location"] = address
        return response


def _cookie(name: str) -> str:
    """Return what a cookie is called in the current request.

    By ``__Host-`` a browser is sure that this very host has set it, by TLS and for all its paths;
    where other applications have paths of their own beside this one, they are not to get the token.
    Within one machine there may be neither TLS nor such a name.
    """
    if request.scheme != "https":
        return name
    return f"__Secure-{name}" if request.root_path else f"__Host-{name}"


def _set(response: flask.Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        _cookie(name),
        value,
        max_age=max(seconds, 0),
        path=request.root_path or "/",
        secure=request.scheme == "https",
        httponly=True,
        samesite="Strict",
    )


def _forget(response: flask.Response) -> None:
    for name in (TOKEN, PERSON):
        _set(response, name, "", 0)


def _next(there: str) -> str:
    """Return where to go after signing in: a path of the console, never another site."""
    own = f"{request.root_path}/console/"
    home = f"{request.root_path}/?"
    within = there.startswith((own, home)) and there.isprintable() and "\\" not in there
    return there if within else own
