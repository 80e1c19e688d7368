"""What RFC 9112 has a server refuse of a request's head, and granian's HTTP library does not.

A proxy before the server may read such a request otherwise, and let by what it would have refused.
granian itself refuses a body whose last transfer coding is not chunked, and one of HTTP/1.0 with
any; it closes the connection after a request with both Content-Length and Transfer-Encoding, whose
length does not count.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from placement_sched.api.serving.body_reading import BodyRefusal

#: A host, or an address in brackets, and perhaps a port (RFC 3986); it may be empty.
_HOST = re.compile(
    rb"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
_CHUNKED = b"chunked"

SEVERAL_HOSTS = BodyRefusal(HTTPStatus.BAD_REQUEST, "The header Host is given more than once.")
WRONG_HOST = BodyRefusal(
    HTTPStatus.BAD_REQUEST, "The header Host is not a host name or address, with or without a port."
)
CODING = BodyRefusal(
    HTTPStatus.NOT_IMPLEMENTED, "Of the transfer codings only chunked is supported."
)


def refusal_of(scope: Mapping[str, Any]) -> BodyRefusal | None:
    """Return why a request is refused for its head, as a proxy before may read it otherwise."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    # RFC 9112, 3.2. For a header that is missing granian puts an empty one, which may be sent.
    if len(hosts) > 1:
        return SEVERAL_HOSTS
    if hosts and not _HOST.fullmatch(hosts[0].strip(b" \t")):
        return WRONG_HOST
    # 6.1: the body would be taken for what its coding hides.
    codings = [value for name, value in scope["headers"] if name == b"transfer-encoding"]
    if codings and b",".join(codings).strip(b" \t").lower() != _CHUNKED:
        return CODING
    return None
