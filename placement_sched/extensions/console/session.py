# SPDX-License-Identifier: Apache-2.0
"""Sign-in by a form that gets a token from keystone.

The token is in a cookie that scripts cannot read and that browsers do not send from other sites.
It is never in an address or a log. With noauth2 there is no sign-in.
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

from placement_sched.clients.session import make_session
from placement_sched.config.options.api import KEYSTONE_GROUP
from placement_sched.config.settings import Settings
from placement_sched.extensions.console.page import check_same_origin, is_encrypted, render_page

LOG = logging.getLogger(__name__)
#: Cookies of the token and of the name to show. The name grants nothing.
TOKEN, PERSON = "placement_sched_token", "placement_sched_person"
#: The user of the pages with noauth2.
ADMIN = "admin"
#: Timeouts of keystone for sign-in and sign-out, in seconds.
_SIGN_IN_TIMEOUT, _SIGN_OUT_TIMEOUT = 20.0, 5.0
#: Additional lifetime of the name cookie in seconds, to report that the token has expired.
_NAME_LIFETIME = 24 * 3600
#: Pattern of valid tokens. A token is sent to keystone in a header.
_TOKEN = re.compile(r"[!-~]+")
_ENDED = "Your sign-in has expired, or is no longer valid. Sign in again."


@dataclass(frozen=True, slots=True)
class Person:
    """The person who sends a request.

    ``token`` is None before sign-in. ``signs_out`` is true if the person can sign out.
    """

    token: str | None
    name: str
    signs_out: bool


class SignInViews:
    """Views of sign-in and sign-out for ``[api] auth_strategy``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_keystone = settings.api.auth_strategy == "keystone"

    def get_person(self) -> Person:
        """Return the person who sent the current request."""
        if not self._by_keystone:
            return Person(ADMIN, f"{ADMIN} (noauth2)", signs_out=False)
        token = request.cookies.get(_build_cookie_name(TOKEN), "")
        if not _TOKEN.fullmatch(token):
            return Person(None, "", signs_out=False)
        return Person(token, request.cookies.get(_build_cookie_name(PERSON), ""), signs_out=True)

    def get_views(self) -> Mapping[str, Any]:
        """Return the views by path below ``/console``."""
        return {"/sign-in": self.sign_in, "/sign-out": self.sign_out}

    def sign_in(self) -> flask.Response:
        """Show the form, or get a token and redirect to the previous page."""
        if not self._by_keystone:
            return self._redirect_to(_check_target(""))
        if request.method != "POST":
            notice = _ENDED if "ended" in request.args else ""
            return self._render_form({"next": request.args.get("next", "")}, notice)
        check_same_origin(request)
        form = request.form
        if not is_encrypted(request):
            error = "A password is not sent without TLS: open this page by https"
            return self._render_form(form, error, HTTPStatus.FORBIDDEN)
        try:
            access = self._authenticate(form)
        except keystone.Unauthorized:
            error = "Keystone rejected this user, password or scope"
            return self._render_form(form, error, HTTPStatus.UNAUTHORIZED)
        except keystone.ClientException as failure:
            error = f"Keystone failed: {failure}"
            return self._render_form(form, error, HTTPStatus.SERVICE_UNAVAILABLE)
        response = self._redirect_to(_check_target(form.get("next", "")))
        remaining = int((access.expires.astimezone(UTC) - datetime.now(UTC)).total_seconds())
        scope = access.project_name or ("the system" if access.system_scoped else "no project")
        _set_cookie(response, TOKEN, access.auth_token, remaining)
        _set_cookie(response, PERSON, f"{access.username}, {scope}", remaining + _NAME_LIFETIME)
        return response

    def sign_out(self) -> flask.Response:
        """Delete the cookies and revoke the token."""
        check_same_origin(request)
        response = self._redirect_to(f"{request.root_path}/console/sign-in")
        if request.method == "POST":
            token = self.get_person().token
            if self._by_keystone and token is not None:
                self._revoke(token)
            _delete_cookies(response)
        return response

    def redirect_to_sign_in(self) -> flask.Response:
        """Redirect a request without a valid token to the sign-in form.

        After sign-in, the form redirects to the page of the request. Invalid cookies are deleted,
        and the form reports that the sign-in has expired.
        """
        target = request.full_path.rstrip("?") if request.method in {"GET", "HEAD"} else ""
        query = {"next": target} if target else {}
        has_expired = any(_build_cookie_name(name) in request.cookies for name in (TOKEN, PERSON))
        if has_expired:
            query["ended"] = "1"
        suffix = f"?{urlencode(query)}" if query else ""
        response = self._redirect_to(f"{request.root_path}/console/sign-in{suffix}")
        if has_expired:
            _delete_cookies(response)
        return response

    def _authenticate(self, form: Mapping[str, str]) -> Any:
        domain = form.get("domain") or self._settings.console.default_domain
        scope: dict[str, Any] = {"system_scope": "all"}
        if form.get("project"):
            project_domain = form.get("project_domain") or domain
            scope = {"project_name": form["project"], "project_domain_name": project_domain}
        plugin = v3.Password(
            auth_url=self._get_keystone_url(),
            username=form.get("user", ""),
            password=form.get("password", ""),
            user_domain_name=domain,
            **scope,
        )
        return plugin.get_access(self._build_session(_SIGN_IN_TIMEOUT))

    def _revoke(self, token: str) -> None:
        """Revoke a token at keystone.

        A failure of keystone does not prevent sign-out.
        """
        root = self._get_keystone_url().rstrip("/")
        address = f"{root.removesuffix('/v3')}/v3/auth/tokens"
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        try:
            session = self._build_session(_SIGN_OUT_TIMEOUT)
            session.delete(address, headers=headers, log=False)
        except (keystone.Unauthorized, keystone.NotFound):
            return  # already invalid
        except keystone.ClientException as failure:
            LOG.warning("keystone did not revoke a token at sign-out: %s", failure)

    def _build_session(self, timeout: float) -> Session:
        options = self._settings.conf[KEYSTONE_GROUP]
        return make_session(cacert=options.cafile, insecure=options.insecure, timeout=timeout)

    def _get_keystone_url(self) -> str:
        options = self._settings.conf[KEYSTONE_GROUP]
        return str(
            self._settings.console.auth_url
            or options.www_authenticate_uri
            or getattr(options, "auth_url", "")
            or ""
        )

    def _render_form(
        self, typed: Mapping[str, str], error: str = "", status: int = HTTPStatus.OK
    ) -> flask.Response:
        fields = {key: value for key, value in typed.items() if key != "password"}
        values = {
            "share": None,
            "typed": {"domain": self._settings.console.default_domain, **fields},
            "error": error,
            "keystone": self._get_keystone_url(),
        }
        return render_page("sign_in.html", "Sign in", values, status=status)

    @staticmethod
    def _redirect_to(address: str) -> flask.Response:
        response = flask.Response(status=HTTPStatus.SEE_OTHER)
        response.headers["Location"] = address
        return response


def _build_cookie_name(name: str) -> str:
    """Return the full name of a cookie for the current request.

    ``__Host-`` binds the cookie to this host and TLS, but requires the path ``/``. If the service
    has a path prefix, ``__Secure-`` is used, because other applications of the host must not get
    the token. Without TLS, which is optional within a machine, browsers accept neither prefix.
    """
    if request.scheme != "https":
        return name
    return f"__Secure-{name}" if request.root_path else f"__Host-{name}"


def _set_cookie(response: flask.Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        _build_cookie_name(name),
        value,
        max_age=max(seconds, 0),
        path=request.root_path or "/",
        secure=request.scheme == "https",
        httponly=True,
        samesite="Strict",
    )


def _delete_cookies(response: flask.Response) -> None:
    for name in (TOKEN, PERSON):
        _set_cookie(response, name, "", 0)


def _check_target(target: str) -> str:
    """Return ``target`` if it is a path of the console, else its home page."""
    console = f"{request.root_path}/console/"
    home = f"{request.root_path}/?"
    is_local = target.startswith((console, home)) and target.isprintable() and "\\" not in target
    return target if is_local else console
