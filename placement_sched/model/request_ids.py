"""The ids of a request: the service's own, and the global one that a caller sends along."""

import re
from dataclasses import dataclass
from uuid import uuid4

#: What OpenStack's services accept as an id from another service.
_FORM = re.compile(r"req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}")


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids of one request; None where there is none.

    ``request_id`` is this service's own. ``global_request_id`` is the id of the request to the
    cloud that this one is part of: nova sends it with each request that it makes for a client.
    """

    request_id: str | None = None
    global_request_id: str | None = None

    def are_of_one(self, other: "RequestIds") -> bool:
        """Return whether both are ids of one request, which may have been sent twice.

        Who sends one again over HTTP is known by the global id alone: the own one is always new.
        """
        mine = (self.request_id, self.global_request_id)
        theirs = (other.request_id, other.global_request_id)
        return any(one is not None and one == same for one, same in zip(mine, theirs, strict=True))

    def as_json(self) -> dict[str, str]:
        """Return the keys of an error: the global id only where the caller sent one."""
        ids = {"request_id": self.request_id or ""}
        if self.global_request_id is not None:
            ids["global_request_id"] = self.global_request_id
        return ids


#: The ids of work that no request asked for, such as that of a command without a server.
NO_REQUEST = RequestIds()


def ids_of(sent: str | None) -> RequestIds:
    """Return the ids of a request that came with ``sent`` in ``X-Openstack-Request-Id``.

    The request's own id is always a new one. A value of another form is ignored, as OpenStack's
    services do.
    """
    known = sent if sent and _FORM.fullmatch(sent) else None
    return RequestIds(f"req-{uuid4()}", known)
