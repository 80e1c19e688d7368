# SPDX-License-Identifier: Apache-2.0
"""Authentication by ``noauth2``, as in placement, or keystonemiddleware."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from warnings import catch_warnings

import webob
from keystoneauth1 import exceptions as keystoneauth
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from keystonemiddleware import exceptions as middleware
from keystonemiddleware.opts import list_auth_token_opts
from oslo_config import cfg
from webob.exc import HTTPServiceUnavailable

from placement_sched.api.middleware import WSGI, find_context
from placement_sched.api.versions import Headers
from placement_sched.clients.session import check_installed
from placement_sched.config.options.api import KEYSTONE_GROUP as _GROUP
from placement_sched.errors import ConfigurationError, Error, Invalid, Unavailable
from placement_sched.limits import MAX_ID_CHARACTERS

#: Header that reports that keystone did not answer. :class:`AuthMiddleware` removes it from
#: requests of clients.
UNREACHABLE = "X-Identity-Unreachable"
#: Headers of keystonemiddleware, and their names in the credentials of oslo.policy.
_OTHER_CREDENTIALS = (
    ("OpenStack-System-Scope", "system_scope"),
    ("X-Domain-Id", "domain_id"),
    ("X-User-Domain-Id", "user_domain_id"),
    ("X-Project-Domain-Id", "project_domain_id"),
    ("X-Service-User-Id", "service_user_id"),
    ("X-Service-User-Domain-Id", "service_user_domain_id"),
    ("X-Service-Project-Id", "service_project_id"),
    ("X-Service-Project-Domain-Id", "service_project_domain_id"),
)
#: Errors if the identity service does not answer, as opposed to an invalid token.
_NO_RESPONSE = (
    keystoneauth.ConnectionError,
    keystoneauth.DiscoveryFailure,
    keystoneauth.RequestTimeout,
    keystoneauth.CatalogException,
    keystoneauth.AuthorizationFailure,
    auth_token.ServiceError,
)
#: Environ key of the request that creates the token cache, before the first request of a client.
_AT_START = "placement_sched.at_start"
#: The wildcards of an access rule's path (keystone's documentation, "Application Credentials",
#: "Access Rules").
_WILDCARD = re.compile(r"(\*\*|\*|\{[^}]*\})")
_PREFIX = "HTTP_X_FORWARDED_PREFIX"
_VERSION = re.compile(r"/v[0-9][0-9.]*(?=/|$)")


class Unauthorized(Error):
    """The request has no valid token."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: the user, project and roles of the token.

    ``other_credentials`` maps oslo.policy's names (``system_scope``, ``service_roles``, ...) to
    values of the token. Lists are tuples.
    """

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()
    other_credentials: Mapping[str, Any] = field(default_factory=dict)

    def build_credentials(self) -> dict[str, Any]:
        """Return the credentials for oslo.policy."""
        basic = {"user_id": self.user_id, "project_id": self.project_id, "roles": self.roles}
        # oslo.policy compares the items of lists, but not of tuples.
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in {**basic, **self.other_credentials}.items()
        }

    def build_key(self) -> tuple[object, ...]:
        """Return a cache key, equal for callers that no rule can distinguish."""
        return (self.user_id, self.project_id, self.roles, *self.other_credentials.items())

    def get_scope(self) -> Literal["system", "domain", "project"]:
        """Return the scope of the token, by oslo.policy's rules."""
        if self.other_credentials.get("system_scope"):
            return "system"
        return "domain" if self.other_credentials.get("domain_id") else "project"

    def get_target(self) -> dict[str, str]:
        """Return the target of a policy check of the caller's own objects."""
        project_id = self.project_id
        return {"project_id": project_id, "user_id": self.user_id, "owner": project_id}

    def get_owner_id(self, owner_type: Literal["project", "user"]) -> str:
        """Return the user or project id of the caller, to store it as the owner.

        Raises :class:`Invalid` if the id is too long for the column.
        """
        owner = self.project_id if owner_type == "project" else self.user_id
        if len(owner) > MAX_ID_CHARACTERS:
            problem = f"The caller's {owner_type} id has {len(owner)} characters"
            raise Invalid(f"{problem}, but at most {MAX_ID_CHARACTERS} can be stored")
        return owner


ANONYMOUS = Identity("", "")


def read_noauth2_identity(headers: Headers) -> Identity:
    """Return the caller named in ``X-Auth-Token: user[:project]``.

    The user ``admin`` has the role ``admin``. To try out policy rules, clients may set ``X-Roles``,
    ``X-Project-Id`` and the headers of keystonemiddleware for the scope of a token. Raises
    :class:`Unauthorized` without a token.
    """
    token = headers.get("X-Auth-Token")
    if not token:
        raise Unauthorized("No X-Auth-Token was given. With noauth2 it is user[:project]")
    user, _, project = token.partition(":")
    has_default_roles = user == "admin" and headers.get("X-Roles") is None
    roles = ("admin",) if has_default_roles else _read_roles(headers, "X-Roles")
    header = headers.get("X-Project-Id")
    return Identity(
        user,
        (project or user) if header is None else header,
        roles,
        _read_other_credentials(headers),
    )


def read_keystone_identity(headers: Headers) -> Identity:
    """Return the caller in the headers of keystonemiddleware.

    Raises :class:`Unauthorized` for a bad token, :class:`Unavailable` without keystone.
    """
    if headers.get("X-Identity-Status") != "Confirmed":
        if headers.get(UNREACHABLE):
            raise Unavailable("the identity service does not answer, so tokens cannot be checked")
        if not headers.get("X-Auth-Token"):
            raise Unauthorized("No X-Auth-Token was given")
        raise Unauthorized("The token is expired or not valid")
    if headers.get("X-Service-Identity-Status") not in {None, "Confirmed"}:
        raise Unauthorized("The X-Service-Token is expired or not valid, or lacks the service role")
    user_id, project_id = headers.get("X-User-Id") or "", headers.get("X-Project-Id") or ""
    return Identity(
        user_id, project_id, _read_roles(headers, "X-Roles"), _read_other_credentials(headers)
    )


def _read_other_credentials(headers: Headers) -> dict[str, Any]:
    other_credentials: dict[str, Any] = {
        name: value for header, name in _OTHER_CREDENTIALS if (value := headers.get(header))
    }
    other_credentials["is_admin_project"] = headers.get("X-Is-Admin-Project") != "False"
    other_credentials["service_roles"] = _read_roles(headers, "X-Service-Roles")
    return other_credentials


def _read_roles(headers: Headers, header: str) -> tuple[str, ...]:
    roles = (role.strip() for role in (headers.get(header) or "").split(","))
    return tuple(role for role in roles if role)


STRATEGIES = {"noauth2": read_noauth2_identity, "keystone": read_keystone_identity}


class _Silent(Exception):
    """The identity service did not answer."""


class AuthMiddleware(auth_token.AuthProtocol):  # type: ignore[misc] # keystonemiddleware has no types
    """keystonemiddleware's filter, which also reports keystone as unreachable.

    ``apis`` maps the first parts of paths to the names of the APIs.
    """

    def __init__(self, application: WSGI, conf: Mapping[str, Any], apis: Mapping[str, str]) -> None:
        self._apis = apis
        super().__init__(application, conf)

    def process_request(self, request: webob.Request) -> webob.Response | None:
        """Check the tokens, and return None if the application shall answer."""
        request.headers.pop(UNREACHABLE, None)
        try:
            response: webob.Response | None = super().process_request(request)
        except _Silent:
            request.headers[UNREACHABLE] = "1"
            return None
        if request.user_token_valid:
            # keystonemiddleware overwrites the user's scope with the scope of the service token.
            system = request.token_info["token"].get("system") or {}
            request.headers["OpenStack-System-Scope"] = "all" if system.get("all") else ""
            # The log shows only a caller that the identity service has confirmed.
            context = find_context(request.environ)
            if context is not None:
                context.confirm(request.headers)
        return webob.Response() if _AT_START in request.environ else response

    def validate_allowed_request(self, request: webob.Request, token: Mapping[str, Any]) -> None:
        """Check the access rules of a credential, or raise :class:`InvalidToken`."""
        rules = (token.get("application_credential") or {}).get("access_rules")
        # With a valid service token, another service acts on behalf of the user.
        if rules is None or (request.service_token and request.service_token_valid):
            return
        service, paths = self._locate(request)
        for rule in rules:
            if rule["service"] == service and rule["method"] == request.method:
                # The odd parts are wildcards.
                parts = [
                    (".*" if part == "**" else "[^/]+") if index % 2 else re.escape(part)
                    for index, part in enumerate(_WILDCARD.split(rule["path"]))
                ]
                if any(map(re.compile("".join(parts)).fullmatch, paths)):
                    return
        self.log.warning(
            "No access rule of the application credential allows %s %s (service type %s)",
            request.method,
            paths[0],
            service,
        )
        raise auth_token.InvalidToken("no access rule allows the request")

    def _locate(self, request: webob.Request) -> tuple[str | None, list[str]]:
        """Return the service type of a request, and its paths for access rules."""
        first_part = "/" + request.path_info.split("/", 2)[1] if request.path_info else ""
        prefix = first_part if first_part in self._apis else ""
        name = self._apis.get(prefix)
        below = request.path_info[len(prefix) :] or "/"
        versionless = _VERSION.sub("", below, count=1) or "/"
        # A client could choose the prefix in a header so that any path matches.
        mounted_at = "" if _PREFIX in request.environ else request.script_name
        return name, [below, versionless, mounted_at + request.path_info]

    def fetch_token(self, token: str, **options: Any) -> Any:
        """Fetch the data of a token from the identity service."""
        try:
            return super().fetch_token(token, **options)
        except auth_token.InvalidToken as error:
            # With delay_auth_decision, keystonemiddleware reports an invalid token even if the
            # identity service does not answer.
            if isinstance(error.__context__, _NO_RESPONSE):
                raise _Silent from error
            raise
        except (*_NO_RESPONSE, HTTPServiceUnavailable) as failure:
            self.log.critical("Tokens cannot be checked: %s", failure)
            raise _Silent from failure


def check_keystone(conf: cfg.ConfigOpts) -> None:
    """Check ``[keystone_authtoken]``, or raise :class:`ConfigurationError`."""
    loading.register_auth_conf_options(conf, _GROUP)
    if conf[_GROUP].auth_type is not None:
        check_installed(_GROUP, conf[_GROUP].auth_type)
    # Silent here: the server logs the warnings of the middleware when it starts.
    logger = logging.getLogger("keystonemiddleware")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        require_keystone(lambda _environ, _start: (), conf, {})
    finally:
        logger.setLevel(level)


def require_keystone(application: WSGI, conf: cfg.ConfigOpts, apis: Mapping[str, str]) -> WSGI:
    """Wrap ``application`` in keystonemiddleware.

    ``apis`` maps parts of paths to names. Raises :class:`ConfigurationError`.
    """
    for group_name, library_options in list_auth_token_opts():
        conf.register_opts(library_options, group_name)
    # The default of keystonemiddleware since 13.0: any token of a user could be a service token.
    conf.set_default("service_token_roles_required", True, _GROUP)
    try:
        options = {"oslo_config_config": conf, "delay_auth_decision": True}
        gate = AuthMiddleware(application, options, apis)
        if not conf[_GROUP].cache:
            # Raises ImportError now, not at the first request, if the memcached client for the
            # token cache is not installed.
            with catch_warnings(action="ignore"):  # memcached clients warn when they are imported
                gate(webob.Request.blank("/", {_AT_START: None}).environ, lambda *_: None)
    except (cfg.Error, keystoneauth.ClientException, middleware.ConfigurationError) as error:
        raise ConfigurationError(f"[{_GROUP}]: {error}") from None
    except ImportError as missing:
        raise ConfigurationError(
            f"[{_GROUP}]: the memcache options need the Python module {missing.name}, which is "
            "not installed: pip install 'placement-sched[memcached]'"
        ) from None
    group = conf[_GROUP]
    if group.auth_type is None and group.auth_section is None:
        raise ConfigurationError(
            f"[{_GROUP}] auth_type is not set: with [api] auth_strategy = keystone this service "
            "checks every token with keystone, and needs a user in this group to log in there"
        )
    guarded: WSGI = gate
    return guarded
