"""The page Cloud."""

from collections.abc import Callable, Mapping

import flask

from placement_sched.console.page import caller, page


def index() -> flask.Response:
    """Show the page."""
    return page("cloud.html", "Cloud", {"document": caller().get("/scheduler/v1")})


VIEWS: Mapping[str, Callable[..., flask.Response]] = {"/": index}
