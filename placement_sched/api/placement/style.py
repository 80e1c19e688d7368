"""How the Placement API negotiates versions and reports errors."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from webob.acceptparse import create_accept_header

from placement_sched.api.blueprint import Seen
from placement_sched.api.call import Answer
from placement_sched.api.placement.microversions import ERROR_CODES
from placement_sched.api.response import HTML, JSON, NOT_FOUND, TEXT, page
from placement_sched.api.versions import Headers, Version, Versioning
from placement_sched.errors import Error


class PlacementStyle:
    """Placement's shape: ``{"errors": [{status, title, detail, code, request_id}]}``.

    That is for every client that accepts JSON. One that does not is given HTML or, if it does not
    accept that either, plain text. ``codes_since`` is the version from which errors carry their
    code; None is always.
    """

    refuses_other_types = True
    checks_every_value = False

    def __init__(self, versioning: Versioning, codes_since: Version | None = ERROR_CODES) -> None:
        self._versioning = versioning
        self._codes_since = codes_since

    def negotiate(self, headers: Headers) -> Version:
        """Return the version that ``OpenStack-API-Version`` asks for."""
        return self._versioning.negotiate(headers)

    def version_headers(self, version: Version) -> Mapping[str, str]:
        """Return the version headers of an answer."""
        return {
            "OpenStack-API-Version": f"{self._versioning.service} {version}",
            # Lower case, as OpenStack placement sends it: suites of its clients look for that.
            "Vary": "openstack-api-version",
        }

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:
        """Return the error in the first of JSON, HTML and plain text that the client accepts."""
        kind = _accepted(seen.accept)
        if kind == JSON:
            return self.in_json(error, status, title, seen)
        # Clients of OpenStack placement look for this sentence on the page of any 404.
        first = [NOT_FOUND] if status == HTTPStatus.NOT_FOUND and error.detail != NOT_FOUND else []
        return page(kind, status, title, [*first, error.detail])

    def in_json(self, error: Error, status: int, title: str, seen: Seen) -> Answer:
        """Return the error in placement's shape."""
        shown: dict[str, Any] = {"status": status, "title": title, "detail": error.detail}
        if self._codes_since is None or (seen.version and seen.version.has(self._codes_since)):
            shown["code"] = error.code
        shown.update(seen.ids.as_json())
        shown.update(error.extra)
        if error.fault is not None and self._codes_since is None:  # not in placement's own answers
            shown["fault"] = error.fault
        return Answer(status=status, body={"errors": [shown]})


def _accepted(accept: str) -> str:
    """Return the type in which a client with this ``Accept`` header gets an error.

    A header that cannot be parsed is ignored.
    """
    if not accept:
        return JSON
    header = create_accept_header(accept)
    return next((kind for kind in (JSON, HTML) if header.acceptable_offers([kind])), TEXT)
