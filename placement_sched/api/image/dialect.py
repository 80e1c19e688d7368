"""How the image API tells errors; it has no microversions."""

from collections.abc import Mapping

from placement_sched.api.call import Answer
from placement_sched.api.face import Seen
from placement_sched.api.microversion import Headers, Version
from placement_sched.errors import Error

#: The newest minor version that the version document announces.
NEWEST = Version(2, 9)


class ImageDialect:
    """glance's shape: ``{"message": ..., "code": "404 Not Found", "title": "Not Found"}``."""

    heeds_accept = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the one version there is."""
        return NEWEST

    def stamps(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return no headers: the image API's answers tell no version."""
        return {}

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:  # noqa: ARG002 - the protocol's
        """Return the error in glance's shape."""
        body = {"message": error.detail, "code": f"{status} {title}", "title": title}
        return Answer(status=status, body=body)
