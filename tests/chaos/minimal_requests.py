# SPDX-License-Identifier: Apache-2.0
"""Minimal requests for every route."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webtest import TestApp, TestRequest

from placement_sched.api.blueprint import PARAMETER, Route
from placement_sched.api.versions import NEVER
from tests.chaos.grammar import UUIDS

#: Routes that reject every caller. Compute services create instances and report them. Keystone's
#: API is proxied only for services on the same machine, and only if that is configured.
CLOSED = re.compile(r"(POST|PUT|DELETE) /compute/v2.1/servers|\w+ /identity/v3/<path")


@dataclass(frozen=True)
class RouteAtPath:
    """A route with its full path."""

    path: str
    route: Route

    def build_request(self, app: TestApp, headers: Mapping[str, str]) -> TestRequest:
        """Return a minimal request for the route."""
        path = PARAMETER.sub(UUIDS[0], self.path)
        service = self.path.split("/")[1]
        version = "latest" if self.route.until == NEVER else self.route.until
        sent = {"OpenStack-API-Version": f"{service} {version}", **headers}
        request = app.RequestClass.blank(path, method=self.route.method, headers=sent)
        if self.route.takes_body:
            request.content_type = self.route.content_types[0]
            request.body = (
                b"{}" if self.route.action is None else b'{"%s": {}}' % (self.route.action.encode())
            )
        return request


def list_routes(app: TestApp) -> Iterator[RouteAtPath]:
    """Yield every route of every API."""
    for rule in app.app.url_map.iter_rules():
        route = getattr(rule, "route", None)
        if route is not None:
            yield RouteAtPath(rule.rule, route)
