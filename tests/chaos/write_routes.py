# SPDX-License-Identifier: Apache-2.0
"""Routes that write, as values for other processes."""

from collections.abc import Iterator
from dataclasses import dataclass

from placement_sched.api.versions import NEVER
from tests.chaos.minimal_requests import CLOSED, list_routes
from tests.chaos.writes import NO_WRITES
from tests.conftest import Client


@dataclass(frozen=True)
class WriteRoute:
    """A route that writes. The versions of a route share its ``name``."""

    name: str
    method: str
    rule: str
    version: str
    kind: str


def list_write_routes(app: Client) -> Iterator[WriteRoute]:
    """Yield every route of an application that may write."""
    for route, path in ((item.route, item.path) for item in list_routes(app)):
        name = f"{route.method} {path}"
        if route.method in {"GET", "HEAD"} or name in NO_WRITES or CLOSED.match(name):
            continue
        if route.action:
            name += f" {route.action}"
        version = "latest" if route.until == NEVER else str(route.until)
        api = path.split("/")[1]
        yield WriteRoute(name, route.method, path, f"{api} {version}", route.content_types[0])
