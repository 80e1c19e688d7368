# SPDX-License-Identifier: Apache-2.0
"""Request ids: the service's own id, and the global id sent by a caller."""

import re
from dataclasses import dataclass
from uuid import uuid4

#: The form of request ids that OpenStack's services accept from each other.
_ID_PATTERN = re.compile(r"req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}")


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids of a request, None for an absent id.

    ``request_id`` is this service's own id. ``global_request_id`` is the id of the user's request
    to the cloud. nova sends it with each request that it makes for a client.
    """

    request_id: str | None = None
    global_request_id: str | None = None

    def name_same_request(self, other: "RequestIds") -> bool:
        """Return whether both identify the same request, possibly sent twice.

        A request repeated over HTTP has only the global id in common, because the own id is always
        new.
        """
        own_ids = (self.request_id, self.global_request_id)
        other_ids = (other.request_id, other.global_request_id)
        return any(a is not None and a == b for a, b in zip(own_ids, other_ids, strict=True))

    def as_json(self) -> dict[str, str]:
        """Return the keys of an error, with the global id if the caller sent it."""
        ids = {"request_id": self.request_id or ""}
        if self.global_request_id is not None:
            ids["global_request_id"] = self.global_request_id
        return ids


#: The ids of work without a request, such as a command without a server.
NO_REQUEST = RequestIds()


def ids_of(header: str | None) -> RequestIds:
    """Create the ids of a request, given its header ``X-Openstack-Request-Id``.

    ``request_id`` is always new. A malformed header is ignored, as in OpenStack's services.
    """
    global_id = header if header and _ID_PATTERN.fullmatch(header) else None
    return RequestIds(f"req-{uuid4()}", global_id)
