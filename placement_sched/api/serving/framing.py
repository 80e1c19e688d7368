"""What RFC 9112 has a server refuse of a request's head, and granian's HTTP library does not.

A proxy before the server may read such a request otherwise, and let by what it would have refused.
granian itself refuses a body whose last transfer coding is not chunked, and one of HTTP/1.0 with
any; it closes the connection after a request with both Content-Length and Transfer-Encoding, whose
length does not count.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from placement_sched.api.serving.body_reading import BodyRefusal
from placement_sched.limits import MAX_HEADER_BYTES, MAX_HEADERS_BYTES

#: A host, or an address in brackets, and perhaps a port (RFC 3986); it may be empty.
_HOST = re.compile(
    rb"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
_CHUNKED = b"chunked"

TOO_LONG = BodyRefusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"A header may have {MAX_HEADER_BYTES} bytes, and all headers together {MAX_HEADERS_BYTES}.",
)
SEVERAL_HOSTS = BodyRefusal(HTTPStatus.BAD_REQUEST, "The header Host is given more than once.")
WRONG_HOST = BodyRefusal(
    HTTPStatus.BAD_REQUEST, "The header Host is not a host name or address, with or without a port."
)
CODING = BodyRefusal(
    HTTPStatus.NOT_IMPLEMENTED, "Of the transfer codings only chunked is supported."
)


def refusal_of(scope: Mapping[str, Any]) -> BodyRefusal | None:
    """Return why a request is refused for its head: too long, or read otherwise by a proxy."""
    if _is_too_long(scope["headers"]):
        return TOO_LONG
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


def _is_too_long(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    total = sum(len(name) + len(value) for name, value in headers)
    if total <= MAX_HEADER_BYTES:
        return False
    lengths: Counter[bytes] = Counter()
    for name, value in headers:
        lengths[name] += len(name) + len(value)
    return total > MAX_HEADERS_BYTES or max(lengths.values()) > MAX_HEADER_BYTES
