"""Sends text as gzip to clients that accept it, where its length gives nothing away.

A compressed answer is shorter where two parts of it are alike. One who reads lengths on the line,
and can make the browser of a person ask for answers with chosen text in them, learns by trying what
else stands there (the attack BREACH). Hence the rule:

* The console's own files are the same for everyone: they are always compressed.
* A page, or an answer of an API, has names of the cloud beside text that its address or a tenant
  chose. It is compressed only where no other site has led to it: browsers say so by
  ``Sec-Fetch-Site``, and those too old for it do not send the cookie on such a way
  (``SameSite=Strict``), so that they are shown the form for signing in.
* What sets a cookie is never compressed. Tokens and passwords stand in no body at all.
"""

from functools import lru_cache, partial
from gzip import compress

import flask
from flask import request

#: What gets shorter; pictures that are compressed already do not.
_TEXTS = frozenset(
    ("application/json", "image/svg+xml", "text/css", "text/html", "text/javascript", "text/plain")
)
#: By these a browser says that a page of another site sent a request, or led to it.
_OTHERS = frozenset(("cross-site", "same-site"))
#: Bytes; below, the head of the answer is most of it.
_WORTH = 500

#: The same bytes of the same text: ten thousand hosts (2 MB) take 40 ms and become 400 KB.
_packed = partial(compress, compresslevel=6, mtime=0)
#: Files stay the same while the service runs: each is compressed once.
_packed_file = lru_cache(maxsize=64)(_packed)


def compressed(response: flask.Response) -> flask.Response:
    """Return the answer to the current request, as gzip where client and rule allow it.

    Its ETag becomes weak, as it then names two forms of the same text (RFC 9110, 8.8.3).
    """
    if not _can_be(response):
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings.quality("gzip") <= 0:
        return response
    tag, _ = response.get_etag()
    if tag is not None:
        response.set_etag(tag, weak=True)
    if response.status_code == 304:
        return response
    response.direct_passthrough = False
    body = response.get_data()
    if len(body) >= _WORTH:
        response.set_data(_packed_file(body) if _is_file() else _packed(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers.pop("Accept-Ranges", None)
    return response


def _can_be(response: flask.Response) -> bool:
    """Return whether the rule allows an answer to be compressed, for a client that accepts it."""
    if response.mimetype not in _TEXTS or response.status_code in {204, 206}:
        return False
    if "Content-Encoding" in response.headers or "Set-Cookie" in response.headers:
        return False
    return _is_file() or request.headers.get("Sec-Fetch-Site") not in _OTHERS


def _is_file() -> bool:
    return request.endpoint == "console.static"
