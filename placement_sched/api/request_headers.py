"""The headers of a request, as WSGI hands them over."""

from functools import cache
from typing import Any


class RequestHeaders:
    """Headers looked up by name, in whatever case.

    A request asks for a score of them, most of which are not there: werkzeug's, which can do much
    more, take ten times as long.
    """

    __slots__ = ("_environ",)

    def __init__(self, environ: dict[str, Any]) -> None:
        self._environ = environ

    def get(self, key: str, /) -> str | None:
        """Return the header's value, or None."""
        value: str | None = self._environ.get(_variable(key))
        return value


@cache  # of the names that this service asks for, which are few
def _variable(header: str) -> str:
    """Return the name that a header has in a WSGI environment."""
    name = header.upper().replace("-", "_")
    return name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"
