"""Authentication of callers: placement's ``noauth2``, or the headers of keystonemiddleware."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from placement_sched.api.microversion import Headers
from placement_sched.errors import Error, Invalid, Unavailable


class Unauthorized(Error):
    """The request has no valid token."""


#: Characters of a project's or user's id in a table.
_LONGEST = 255
#: Header by which ``placement_sched.api.keystone`` reports that keystone did not answer. It
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
