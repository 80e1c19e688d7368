"""The page Ask."""

from collections.abc import Callable, Mapping

import flask

from placement_sched.console.page import caller, page


def index() -> flask.Response:
    """Show the page."""
    return page("ask.html", "Ask", {"document": caller().get("/scheduler/v1")})


VIEWS: Mapping[str, Callable[..., flask.Response]] = {"/ask": index}
