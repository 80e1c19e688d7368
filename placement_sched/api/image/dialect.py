"""How the image API tells errors; it has no microversions."""

from collections.abc import Mapping

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from placement_sched.api.call import Answer
from placement_sched.api.error_pages import HTML, TEXT, page
from placement_sched.api.face import Seen
from placement_sched.api.microversion import Headers, Version
from placement_sched.errors import Error

#: The newest minor version that the version document announces.
NEWEST = Version(2, 9)

_JSON = "application/json"


class ImageDialect:
    """glance's shape: ``{"message": ..., "code": "404 Not Found", "title": "Not Found"}``.

    That is for those who ask for JSON. As glance, we answer HTML to whoever takes anything: its
    own client, which says no more than that, reads HTML and stumbles over this JSON.
    """

    heeds_accept = False  # glance answers JSON to whomever
    checks_every_value = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the one version there is."""
        return NEWEST

    def stamps(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return no headers: the image API's answers tell no version."""
        return {}

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:
        """Return the error in glance's shape."""
        accepted = parse_accept_header(seen.accept, MIMEAccept)
        kind = accepted.best_match([HTML, _JSON, TEXT]) or _JSON
        if kind == _JSON:
            body = {"message": error.detail, "code": f"{status} {title}", "title": title}
            return Answer(status=status, body=body)
        return page(kind, status, title, [error.detail])
