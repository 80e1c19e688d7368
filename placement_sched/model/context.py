# SPDX-License-Identifier: Apache-2.0
"""The context of the current request: its ids and its caller.

Plugins written for nova read the caller from an object like nova's request context.
"""

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

from oslo_context import context

from placement_sched.model.document import PluginValue

#: The pattern of request ids that OpenStack's services accept from each other.
_ID_PATTERN = re.compile(r"req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}")
#: Returns the fields of the request's caller, under the names of nova's request context.
_CALLER: ContextVar[Callable[[], Mapping[str, Any]]] = ContextVar("the caller of the request")
#: Returns the host of a recorded instance from its uuid, for plugins that limit resizes.
_HOST_OF: ContextVar[Callable[[str], str | None]] = ContextVar("the hosts of instances")
_FIELDS: tuple[str, ...] = (
    "user_id",
    "project_id",
    "roles",
    "user_domain_id",
    "project_domain_id",
    "domain_id",
    "system_scope",
    "request_id",
    "global_request_id",
)


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids of a request (None: absent).

    nova sends ``global_request_id``, the id of a user's request to the cloud.
    """

    request_id: str | None = None
    global_request_id: str | None = None

    def is_same_request(self, other: "RequestIds") -> bool:
        """Return whether two objects are for the same request, maybe repeated.

        A repetition over HTTP has only the global id in common.
        """
        own_ids = (self.request_id, self.global_request_id)
        other_ids = (other.request_id, other.global_request_id)
        return any(a is not None and a == b for a, b in zip(own_ids, other_ids, strict=True))

    def as_json(self) -> dict[str, str]:
        """Return the ids for the JSON of an error, without an absent global id."""
        ids = {"request_id": self.request_id or ""}
        if self.global_request_id is not None:
            ids["global_request_id"] = self.global_request_id
        return ids


#: The ids of work without a request, such as a command without a server.
NO_REQUEST = RequestIds()


def build_request_ids(header: str | None) -> RequestIds:
    """Create the ids of a request from its ``X-Openstack-Request-Id``.

    ``request_id`` is always new. A malformed header is ignored, as in OpenStack's services.
    """
    global_id = header if header and _ID_PATTERN.fullmatch(header) else None
    return RequestIds(f"req-{uuid4()}", global_id)


class RequestContext(context.RequestContext, PluginValue):
    """A request context with the attributes of nova's context.

    It has no token: plugins cannot call other services in the name of the user.
    """

    def __init__(
        self,
        user_id: str | None = None,
        project_id: str | None = None,
        is_admin: bool | None = None,
        read_deleted: str = "no",
        **fields: Any,
    ) -> None:
        fields = {name: value for name, value in fields.items() if name in _FIELDS}
        super().__init__(
            user_id=user_id,
            project_id=project_id,
            is_admin=bool(is_admin),
            overwrite=False,
            **fields,
        )
        self.read_deleted = read_deleted
        if is_admin is None:
            self.is_admin = "admin" in self.roles

    @property
    def tenant(self) -> str | None:
        """Return the project id, under the attribute name that old releases used."""
        return self.project_id

    @property
    def user(self) -> str | None:
        """Return the user id, under the attribute name that old releases used."""
        return self.user_id

    def elevated(self, read_deleted: str | None = None) -> Self:
        """Return a copy that has the role admin (nova's method name)."""
        elevated = copy(self)
        elevated.roles = [*dict.fromkeys([*self.roles, "admin"])]
        elevated.is_admin, elevated.read_deleted = True, read_deleted or self.read_deleted
        return elevated


def set_caller(read: Callable[[], Mapping[str, Any]]) -> None:
    """Set the function that returns the caller of the current request."""
    _CALLER.set(read)


def set_host_reader(read: Callable[[str], str | None]) -> None:
    """Set the function that finds the host of a recorded instance."""
    _HOST_OF.set(read)


def read_host(uuid: str | None) -> str | None:
    """Return the host of an instance, or None if the host is unknown."""
    read = _HOST_OF.get(None)
    return None if uuid is None or read is None else read(uuid)


def build_context(user_id: str | None, project_id: str | None) -> RequestContext:
    """Return the current context, with an owner if the caller is unknown."""
    caller = dict(_CALLER.get(dict)())
    caller["roles"] = list(caller.get("roles") or ())
    owner = {"user_id": user_id, "project_id": project_id}
    return RequestContext(**{**owner, **{key: value for key, value in caller.items() if value}})
