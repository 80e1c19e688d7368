"""One page: its template within the frame that all pages share, with the headers that guard it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import flask

from placement_sched.console.caller import Caller
from placement_sched.console.guards import HEADERS
from placement_sched.console.rendering import rendered

#: The pages that the navigation shows: name, path below ``/console/``, and what each is for.
NAVIGATION = (
    ("Cloud", "", "Every host, coloured by what it has free"),
    ("Ask", "ask", "Where a request would go, and why not elsewhere"),
    ("Decisions", "decisions", "What was decided, and how"),
    ("Capacity", "capacity", "How many more instances fit"),
    ("Aggregates", "aggregates", "Which hosts are reserved for what"),
    ("Policies", "policies", "The options of each scheduling policy"),
)


def page(
    template: str, title: str, values: Mapping[str, Any] | None = None, *, status: int = 200
) -> flask.Response:
    """Return the page of a template that extends ``page.html``.

    Templates have ``root``, the path of the console without a slash at its end, ``title``,
    ``person`` (who has signed in) and ``here``, the page's own path and query string.
    """
    request = flask.request
    known = {
        "root": f"{request.root_path}/console",
        "title": title,
        "navigation": NAVIGATION,
        "person": flask.g.get("person"),
        "here": request.full_path.rstrip("?"),
    }
    return guarded(flask.Response(rendered(template, {**known, **(values or {})}), status))


def error_page(status: int, detail: str) -> flask.Response:
    """Return the page of an error; ``detail`` says in one sentence what is wrong."""
    title = HTTPStatus(status).phrase
    return page("error.html", title, {"status": int(status), "detail": detail}, status=status)


def guarded(response: flask.Response) -> flask.Response:
    """Return a response that no one stores, with the headers of all pages."""
    response.headers.update(HEADERS)
    response.headers["Cache-Control"] = "no-store"
    return response


def caller() -> Caller:
    """Return what asks the APIs as the person who has sent the current request."""
    return Caller(flask.g.person.token)
