"""One page: its template within the frame that all pages share, with the headers that guard it."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import flask

from placement_sched.api.response import status_of
from placement_sched.console.caller import ApiRefused, Caller
from placement_sched.console.guards import HEADERS
from placement_sched.console.rendering import rendered
from placement_sched.console.reports import Heading
from placement_sched.errors import Error
from placement_sched.model.clock import utcnow

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


def without_empty_fields() -> flask.Response | None:
    """Return a redirect to this address without its empty fields, None where it has none.

    A browser without scripts sends every field of a form. Where all are empty they stay, so that
    the page can say what is missing.
    """
    pairs = list(flask.request.args.items(multi=True))
    filled = [(name, text) for name, text in pairs if text.strip()]
    if not filled or len(filled) == len(pairs):
        return None
    address = f"{flask.request.root_path}{flask.request.path}?{urlencode(filled)}"
    return guarded(flask.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address}))


@dataclass(frozen=True, slots=True)
class FormError:
    """Why a form has no answer, in the words of who refuses it, and the status of its page."""

    status: int
    detail: str


def form_error(failure: ApiRefused | Error) -> FormError:
    """Return what a page says of a question that was refused."""
    if isinstance(failure, Error):
        return FormError(int(status_of(failure)), failure.detail)
    return FormError(int(failure.status), failure.detail)


def error_page(status: int, detail: str) -> flask.Response:
    """Return the page of an error; ``detail`` says in one sentence what is wrong."""
    title = HTTPStatus(status).phrase
    return page("error.html", title, {"status": int(status), "detail": detail}, status=status)


def heading(title: str, *facts: tuple[str, str]) -> Heading:
    """Return the heading of a report that is made now, of what this service answered."""
    place = flask.request.host_url.rstrip("/")
    return Heading(title=title, place=place, made=utcnow(), facts=facts)


def download(name: str, html: str) -> flask.Response:
    """Return a report as a file to keep."""
    response = guarded(flask.Response(html, content_type="text/html; charset=utf-8"))
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def guarded(response: flask.Response) -> flask.Response:
    """Return a response that no one stores, with the headers of all pages."""
    response.headers.update(HEADERS)
    response.headers["Cache-Control"] = "no-store"
    return response


def caller() -> Caller:
    """Return what asks the APIs as the person who has sent the current request."""
    return Caller(flask.g.person.token)
