"""Authentication of callers: placement's ``noauth2``, or the headers of keystonemiddleware."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import webob
from keystoneauth1 import exceptions as keystoneauth
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from keystonemiddleware import exceptions as middleware
from oslo_config import cfg
from webob.exc import HTTPServiceUnavailable

from placement_sched.api.request_context import WSGI, context_of
from placement_sched.api.versions import Headers
from placement_sched.clients.session import check_installed
from placement_sched.config.logs import without_warnings
from placement_sched.config.options.api import KEYSTONE_GROUP as _GROUP
from placement_sched.errors import ConfigurationError, Error, Invalid, Unavailable


class Unauthorized(Error):
    """The request has no valid token."""


#: Characters of a project's or user's id in a table.
_LONGEST = 255
#: Header by which ``placement_sched.api.auth`` reports that keystone did not answer. It
#: removes what a client sends under this name.
UNREACHABLE = "X-Identity-Unreachable"


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: user and project as the token names them, and the roles held.

    ``further`` is what else of a token policy rules may look at, under oslo.policy's names
    (``system_scope``, ``service_roles``, ...); a list there is a tuple.
    """

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()
    further: Mapping[str, Any] = field(default_factory=dict)

    def credentials(self) -> dict[str, Any]:
        """Return what policy rules are checked against."""
        own = {"user_id": self.user_id, "project_id": self.project_id, "roles": self.roles}
        # oslo.policy looks into lists, but not into tuples.
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in {**own, **self.further}.items()
        }

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for callers that no policy rule can distinguish."""
        return (self.user_id, self.project_id, self.roles, *self.further.items())

    def scope(self) -> Literal["system", "domain", "project"]:
        """Return the scope of the token, as oslo.policy determines it."""
        if self.further.get("system_scope"):
            return "system"
        return "domain" if self.further.get("domain_id") else "project"

    def owning(self, noun: Literal["project", "user"]) -> str:
        """Return the id to be stored as owner; raises :class:`Invalid` if it is too long."""
        name = self.project_id if noun == "project" else self.user_id
        if len(name) > _LONGEST:
            has = f"The caller's {noun} id has {len(name)} characters"
            raise Invalid(f"{has}; at most {_LONGEST} can be stored")
        return name


ANONYMOUS = Identity("", "")

#: What keystonemiddleware reports of a token beyond user, project and roles, by header.
_FURTHER = (
    ("OpenStack-System-Scope", "system_scope"),
    ("X-Domain-Id", "domain_id"),
    ("X-User-Domain-Id", "user_domain_id"),
    ("X-Project-Domain-Id", "project_domain_id"),
    ("X-Service-User-Id", "service_user_id"),
    ("X-Service-User-Domain-Id", "service_user_domain_id"),
    ("X-Service-Project-Id", "service_project_id"),
    ("X-Service-Project-Domain-Id", "service_project_domain_id"),
)


def noauth2(headers: Headers) -> Identity:
    """Return the caller that ``X-Auth-Token: user[:project]`` names; ``admin`` is administrator.

    So that policy rules can be tried out, ``X-Roles`` replaces the roles, ``X-Project-Id`` the
    project, and the headers in which keystonemiddleware reports the scope of a token set it.
    Raises :class:`Unauthorized` without a token.
    """
    token = headers.get("X-Auth-Token")
    if not token:
        raise Unauthorized("No X-Auth-Token was given; with noauth2 it is user[:project]")
    user, _, project = token.partition(":")
    alone = user == "admin" and headers.get("X-Roles") is None
    roles = ("admin",) if alone else _roles(headers, "X-Roles")
    given = headers.get("X-Project-Id")
    return Identity(user, (project or user) if given is None else given, roles, _further(headers))


def keystone(headers: Headers) -> Identity:
    """Return the caller that keystonemiddleware has put into the headers.

    Raises :class:`Unauthorized` where it has confirmed none, or no service token that was given,
    and :class:`Unavailable` where it could not ask.
    """
    if headers.get("X-Identity-Status") != "Confirmed":
        if headers.get(UNREACHABLE):
            raise Unavailable("the identity service does not answer, so no token can be checked")
        if not headers.get("X-Auth-Token"):
            raise Unauthorized("No X-Auth-Token was given")
        raise Unauthorized("The token is expired or not valid")
    if headers.get("X-Service-Identity-Status") not in {None, "Confirmed"}:
        raise Unauthorized("The X-Service-Token is expired or not valid, or lacks the service role")
    user_id, project_id = headers.get("X-User-Id") or "", headers.get("X-Project-Id") or ""
    return Identity(user_id, project_id, _roles(headers, "X-Roles"), _further(headers))


def _further(headers: Headers) -> dict[str, Any]:
    further: dict[str, Any] = {
        name: value for header, name in _FURTHER if (value := headers.get(header))
    }
    further["is_admin_project"] = headers.get("X-Is-Admin-Project") != "False"
    further["service_roles"] = _roles(headers, "X-Service-Roles")
    return further


def _roles(headers: Headers, header: str) -> tuple[str, ...]:
    named = (role.strip() for role in (headers.get(header) or "").split(","))
    return tuple(role for role in named if role)


STRATEGIES = {"noauth2": noauth2, "keystone": keystone}


#: What it means, beyond a token that is not valid, that the identity service gave no answer.
_NO_ANSWER = (
    keystoneauth.ConnectionError,
    keystoneauth.DiscoveryFailure,
    keystoneauth.RequestTimeout,
    keystoneauth.CatalogException,
    keystoneauth.AuthorizationFailure,
    auth_token.ServiceError,
)


#: Marks the request by which the token cache is made, before the first one of a client.
_AT_START = "placement_sched.at_start"


class _Silent(Exception):
    """The identity service did not answer."""


#: The service types of the APIs that have another name.
_SERVICE_TYPES = {"scheduler": "placement-scheduler"}
#: The wildcards of an access rule's path, and what each stands for (keystone's documentation,
#: "Application Credentials", "Access Rules").
_WILDCARD = re.compile(r"\*\*|\*|\{[^}]*\}")
_PREFIX = "HTTP_X_FORWARDED_PREFIX"
_VERSION = re.compile(r"/v[0-9][0-9.]*(?=/|$)")


class Gate(auth_token.AuthProtocol):  # type: ignore[misc] # keystonemiddleware has no types
    """keystonemiddleware's filter; it distinguishes unverifiable tokens from invalid ones.

    ``apis`` are the names of the APIs by the first part of their paths.
    """

    def __init__(self, application: WSGI, conf: Mapping[str, Any], apis: Mapping[str, str]) -> None:
        self._apis = apis
        super().__init__(application, conf)

    def process_request(self, request: webob.Request) -> webob.Response | None:
        """Check the tokens of a request; None lets it through, to be judged by the application."""
        request.headers.pop(UNREACHABLE, None)
        try:
            response: webob.Response | None = super().process_request(request)
        except _Silent:
            request.headers[UNREACHABLE] = "1"
            return None
        if request.user_token_valid:
            # keystonemiddleware writes the service token's scope over the user's.
            system = request.token_info["token"].get("system") or {}
            request.headers["OpenStack-System-Scope"] = "all" if system.get("all") else ""
            # Let the log show whom the identity service has confirmed.
            known = context_of(request.environ)
            if known is not None:
                known.confirm(request.headers)
        return webob.Response() if _AT_START in request.environ else response

    def validate_allowed_request(self, request: webob.Request, token: Mapping[str, Any]) -> None:
        """Check the access rules of an application credential, each API by its own service type.

        Raises :class:`InvalidToken` if no rule allows the request.
        """
        rules = (token.get("application_credential") or {}).get("access_rules")
        # With a valid service token, another service asks on behalf of the user.
        if rules is None or (request.service_token and request.service_token_valid):
            return
        service, paths = self._place_of(request)
        for rule in rules:
            if rule["service"] == service and rule["method"] == request.method:
                pattern = _pattern_of(rule["path"])
                if any(map(pattern.fullmatch, paths)):
                    return
        self.log.warning(
            "No access rule of the application credential allows %s %s (service type %s)",
            request.method,
            paths[0],
            service,
        )
        raise auth_token.InvalidToken("no access rule allows the request")

    def _place_of(self, request: webob.Request) -> tuple[str | None, list[str]]:
        """Return the service type of a request's API, and the paths that a rule may name.

        These are the path below the API, the path below its version, and the whole path.
        """
        first = "/" + request.path_info.split("/", 2)[1] if request.path_info else ""
        prefix = first if first in self._apis else ""
        name = self._apis.get(prefix)
        below = request.path_info[len(prefix) :] or "/"
        versionless = _VERSION.sub("", below, count=1) or "/"
        service = None if name is None else _SERVICE_TYPES.get(name, name)
        # A prefix from a header may be the client's own, and would make any path fit.
        mounted_at = "" if _PREFIX in request.environ else request.script_name
        return service, [below, versionless, mounted_at + request.path_info]

    def fetch_token(self, token: str, **options: Any) -> Any:
        """Return what the identity service says of a token."""
        try:
            return super().fetch_token(token, **options)
        except auth_token.InvalidToken as refused:
            # With the decision delayed, keystonemiddleware calls it a wrong token.
            if isinstance(refused.__context__, _NO_ANSWER):
                raise _Silent from refused
            raise
        except (*_NO_ANSWER, HTTPServiceUnavailable) as failure:
            self.log.critical("No token can be checked: %s", failure)
            raise _Silent from failure


def _pattern_of(path: str) -> re.Pattern[str]:
    """Return the regular expression of an access rule's path."""

    def parts() -> Iterator[str]:
        end = 0
        for wildcard in _WILDCARD.finditer(path):
            yield re.escape(path[end : wildcard.start()])
            yield ".*" if wildcard[0] == "**" else "[^/]+"
            end = wildcard.end()
        yield re.escape(path[end:])

    return re.compile("".join(parts()))


def check_keystone(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`ConfigurationError` where ``[keystone_authtoken]`` is incomplete."""
    loading.register_auth_conf_options(conf, _GROUP)
    if conf[_GROUP].auth_type is not None:
        check_installed(_GROUP, conf[_GROUP].auth_type)
    # The middleware's advice is logged once, by those who make it to serve.
    advice = logging.getLogger("keystonemiddleware")
    before = advice.level
    advice.setLevel(logging.CRITICAL)
    try:
        guarded_by_keystone(lambda _environ, _start: (), conf, {})
    finally:
        advice.setLevel(before)


def guarded_by_keystone(application: WSGI, conf: cfg.ConfigOpts, apis: Mapping[str, str]) -> WSGI:
    """Return ``application`` with keystonemiddleware in front, as ``[keystone_authtoken]`` says.

    ``apis`` are the names of the APIs by the first part of their paths.
    Raises :class:`ConfigurationError` where that group lacks what is needed to ask keystone.
    """
    try:
        options = {"oslo_config_config": conf, "delay_auth_decision": True}
        gate = Gate(application, options, apis)
        if not conf[_GROUP].cache:
            # Raises ImportError where a client that the token cache needs is not installed: the
            # first request would find that too late.
            with without_warnings():  # as clients of memcached load it
                gate(webob.Request.blank("/", {_AT_START: None}).environ, lambda *_: None)
    except (cfg.Error, keystoneauth.ClientException, middleware.ConfigurationError) as wrong:
        raise ConfigurationError(f"[{_GROUP}]: {wrong}") from None
    except ImportError as missing:
        raise ConfigurationError(
            f"[{_GROUP}]: its memcache options need the Python module {missing.name}, which is "
            "not installed"
        ) from None
    group = conf[_GROUP]
    if group.auth_type is None and group.auth_section is None:
        raise ConfigurationError(
            f"[{_GROUP}] auth_type is not set: with [api] auth_strategy = keystone this service "
            "asks keystone about every token, as the user that the group describes"
        )
    made: WSGI = gate
    return made
