"""How the image API tells errors; it has no microversions."""

from collections.abc import Mapping
from html import escape

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from placement_sched.api.call import Answer
from placement_sched.api.face import Seen
from placement_sched.api.microversion import Headers, Version
from placement_sched.errors import Error

#: The newest minor version that the version document announces.
NEWEST = Version(2, 9)

_JSON = "application/json"
_HTML = "text/html"
_TEXT = "text/plain"


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
        code = f"{status} {title}"
        accepted = parse_accept_header(seen.accept, MIMEAccept)
        kind = accepted.best_match([_HTML, _JSON, _TEXT]) or _JSON
        if kind == _JSON:
            body = {"message": error.detail, "code": code, "title": title}
            return Answer(status=status, body=body)
        page = _page(code, error.detail) if kind == _HTML else f"{code}\n\n{error.detail}\n"
        headers = {"Content-Type": f"{kind}; charset=UTF-8"}
        return Answer(status=status, body=page.encode(), headers=headers)


def _page(code: str, detail: str) -> str:
    told = escape(detail, quote=False)
    return (
        f"<html>\n <head>\n  <title>{code}</title>\n </head>\n"
        f" <body>\n  <h1>{code}</h1>\n  {told}<br /><br />\n </body>\n</html>\n"
    )
