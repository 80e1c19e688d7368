# SPDX-License-Identifier: Apache-2.0
"""Which handlers of an application the requests of a grammar enter, and which succeed."""

from collections.abc import Callable
from typing import Any

import flask

from placement_sched.api.application import Application
from tests.chaos.right_requests import AGENT


class EndpointRecorder:
    """Notes what is entered, and what succeeds, of requests that are the grammar's own.

    What pages ask of the APIs themselves does not count.
    """

    def __init__(self, application: Application) -> None:
        self.entered: set[str] = set()
        self.succeeded: set[str] = set()
        views = application.view_functions
        self.endpoints = {rule.endpoint for rule in application.url_map.iter_rules()}
        for endpoint in self.endpoints:
            views[endpoint] = self._record_calls(endpoint, views[endpoint])

    @property
    def unrequested_endpoints(self) -> set[str]:
        """The endpoints that no request came to."""
        return self.endpoints - self.entered

    @property
    def failed_endpoints(self) -> set[str]:
        """The endpoints that answered no request with a success."""
        return self.endpoints - self.succeeded

    def _record_calls(self, endpoint: str, view: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            if flask.request.headers.get("User-Agent") != AGENT:
                return view(*arguments, **named)
            self.entered.add(endpoint)
            answer = view(*arguments, **named)
            if _read_status(answer) < 400:
                self.succeeded.add(endpoint)
            return answer

        return noting


def _read_status(answer: Any) -> int:
    """Return the status of what a view returns: an answer, or anything that Flask takes."""
    if isinstance(answer, tuple):
        return next((int(part) for part in answer[1:] if isinstance(part, int)), 200)
    return int(getattr(answer, "status_code", None) or getattr(answer, "status", None) or 200)
