# SPDX-License-Identifier: Apache-2.0
"""The routes that write, each for another process to ask."""

from collections.abc import Iterator
from dataclasses import dataclass

from placement_sched.api.versions import NEVER
from tests.chaos.least import CLOSED, list_routes
from tests.chaos.writes import NO_WRITES
from tests.conftest import Client


@dataclass(frozen=True)
class WriteRoute:
    """A route that writes, for another process to ask; ``name`` is unique but for versions."""

    name: str
    method: str
    rule: str
    version: str
    kind: str


def list_write_routes(app: Client) -> Iterator[WriteRoute]:
    """Yield every route of an application that may write."""
    for one in list_routes(app):
        name = f"{one.route.method} {one.path}"
        if one.route.method in {"GET", "HEAD"} or name in NO_WRITES or CLOSED.match(name):
            continue
        if one.route.action:
            name += f" {one.route.action}"
        version = "latest" if one.route.until == NEVER else str(one.route.until)
        api = one.path.split("/")[1]
        kind = one.route.content_types[0]
        yield WriteRoute(name, one.route.method, one.path, f"{api} {version}", kind)
