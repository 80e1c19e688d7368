# SPDX-License-Identifier: Apache-2.0
"""A record of the endpoints that random requests reach."""

from collections.abc import Callable
from typing import Any

import flask

from placement_sched.api.application import Application
from tests.chaos.valid_requests import AGENT


class EndpointRecorder:
    """Records the endpoints that random requests reach, and those endpoints that succeed.

    Requests that pages send to the APIs do not count.
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
        return self.endpoints - self.entered

    @property
    def failed_endpoints(self) -> set[str]:
        """The endpoints without a successful request."""
        return self.endpoints - self.succeeded

    def _record_calls(self, endpoint: str, view: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **named: Any) -> Any:
            if flask.request.headers.get("User-Agent") != AGENT:
                return view(*arguments, **named)
            self.entered.add(endpoint)
            answer = view(*arguments, **named)
            if _read_status(answer) < 400:
                self.succeeded.add(endpoint)
            return answer

        return record


def _read_status(answer: Any) -> int:
    """Return the status of any value that Flask accepts from a view."""
    if isinstance(answer, tuple):
        return next((int(part) for part in answer[1:] if isinstance(part, int)), 200)
    return int(getattr(answer, "status_code", None) or getattr(answer, "status", None) or 200)
