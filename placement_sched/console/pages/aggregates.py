"""The page Aggregates."""

from collections.abc import Callable, Mapping

import flask

from placement_sched.console.page import caller, page


def index() -> flask.Response:
    """Show the page."""
    return page("aggregates.html", "Aggregates", {"document": caller().get("/scheduler/v1")})


VIEWS: Mapping[str, Callable[..., flask.Response]] = {"/aggregates": index}
