# SPDX-License-Identifier: Apache-2.0
"""Routes that write, as values for other processes."""

from collections.abc import Iterator
from dataclasses import dataclass

from placement_sched.api.application import Application
from tests.chaos.endpoints import REJECTING_VIEWS, list_endpoints
from tests.chaos.writes import ROUTES_WITHOUT_EFFECT


@dataclass(frozen=True)
class WriteRoute:
    """A route that writes. The versions of a route share its ``name``."""

    name: str
    method: str
    rule: str
    version: str
    kind: str


def list_write_routes(application: Application) -> Iterator[WriteRoute]:
    """Yield every route of an application that may write."""
    for endpoint in list_endpoints(application):
        route, name = endpoint.route, f"{endpoint.method} {endpoint.rule}"
        if route is None or route.method in {"GET", "HEAD"}:
            continue
        if name not in ROUTES_WITHOUT_EFFECT and endpoint.view not in REJECTING_VIEWS:
            version, kind = f"{endpoint.api} {endpoint.newest_version}", route.content_types[0]
            yield WriteRoute(endpoint.name, route.method, endpoint.rule, version, kind)
