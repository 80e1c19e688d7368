"""The identity API: its routes and error format."""

from collections.abc import Mapping

from placement_sched.api.blueprint import ApiStyle, Face, Seen
from placement_sched.api.call import Answer
from placement_sched.api.identity.routes import versions
from placement_sched.api.versions import Headers, Version
from placement_sched.errors import Error


class IdentityStyle(ApiStyle):
    """keystone's format: ``{"error": {"code": 403, "message": ..., "title": "Forbidden"}}``."""

    refuses_other_types = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the only version."""
        return versions.NEWEST

    def version_headers(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return the Vary header of keystone."""
        return {"Vary": "X-Auth-Token"}

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:  # noqa: ARG002 - the protocol's
        """Return the error in keystone's format."""
        document = {"code": status, "message": error.detail, "title": title}
        return Answer(status=status, body={"error": document})


FACE = Face("identity", IdentityStyle(), (versions.blueprint,))
