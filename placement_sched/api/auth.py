"""Who the caller is: placement's ``noauth2``, or the headers of keystonemiddleware."""

from dataclasses import dataclass

from placement_sched.api.microversion import Headers
from placement_sched.errors import Error


class Unauthorized(Error):
    """The caller has not said who they are."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: user and project as the token names them, and the roles held."""

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()


ANONYMOUS = Identity("", "")


def noauth2(headers: Headers) -> Identity:
    """Return the caller that ``X-Auth-Token: user[:project]`` names; ``admin`` is administrator.

    ``X-Roles`` adds roles. Raises :class:`Unauthorized` without a token.
    """
    token = headers.get("X-Auth-Token")
    if not token:
        raise Unauthorized("No X-Auth-Token was given; with noauth2 it is user[:project]")
    user, _, project = token.partition(":")
    roles = tuple(
        role.strip() for role in (headers.get("X-Roles") or "").split(",") if role.strip()
    )
    if user == "admin" and "admin" not in roles:
        roles = (*roles, "admin")
    return Identity(user, project or user, roles)


def keystone(headers: Headers) -> Identity:
    """Return the caller that keystonemiddleware has put into the headers.

    Raises :class:`Unauthorized` where it has confirmed none.
    """
    if headers.get("X-Identity-Status") != "Confirmed":
        raise Unauthorized("The token is missing, expired or not valid")
    roles = tuple(
        role.strip() for role in (headers.get("X-Roles") or "").split(",") if role.strip()
    )
    return Identity(headers.get("X-User-Id") or "", headers.get("X-Project-Id") or "", roles)


def _roles(headers: Headers) -> tuple[str, ...]:
    named = (role.strip() for role in (headers.get("X-Roles") or "").split(","))
    return tuple(role for role in named if role)


STRATEGIES = {"noauth2": noauth2, "keystone": keystone}
