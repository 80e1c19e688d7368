"""How the identity API tells errors; it has no microversions."""

from collections.abc import Mapping

from placement_sched.api.call import Answer
from placement_sched.api.face import Seen
from placement_sched.api.microversion import Headers, Version
from placement_sched.errors import Error

#: The version that the document announces.
NEWEST = Version(3, 14)


class IdentityDialect:
    """keystone's shape: ``{"error": {"code": 403, "message": ..., "title": "Forbidden"}}``."""

    heeds_accept = True
    checks_every_value = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the one version there is."""
        return NEWEST

    def stamps(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return what keystone's answers vary by."""
        return {"Vary": "X-Auth-Token"}

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:  # noqa: ARG002 - the protocol's
        """Return the error in keystone's shape."""
        told = {"code": status, "message": error.detail, "title": title}
        return Answer(status=status, body={"error": told})
