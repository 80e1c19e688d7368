# SPDX-License-Identifier: Apache-2.0
"""Routes of all APIs, and the tests that request them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.identity import API as IDENTITY
from placement_sched.api.image import API as IMAGE
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.routing import Route
from placement_sched.api.scheduler.routes import API as SCHEDULER
from tests.house.requests_sent import SentRequest, read_gabbi_requests, read_module_requests
from tests.support.repository import ROOT

ROUTES_BY_API = {
    "placement": PLACEMENT.routes,
    "compute": COMPUTE.routes,
    "image": IMAGE.routes,
    "identity": IDENTITY.routes,
    "scheduler": SCHEDULER.routes,
}
#: Test folders that need another service or belong to make test-only WHAT=chaos.
FOLDERS_WITH_OTHER_SERVICES = {"chaos", "coexistence", "differential", "nova", "openstack_client"}


@dataclass(frozen=True)
class ServedRoute:
    """A route and its API."""

    api: str
    route: Route

    @property
    def address(self) -> tuple[str, str]:
        """Return the method, and the path without parameter names and trailing slash."""
        path = re.sub(r"<[^>]+>", "{}", f"/{self.api}{self.route.path}")
        return self.route.method, path.rstrip("/")

    def __str__(self) -> str:
        window = f"-{self.route.since}" if self.route.since > (0, 0) else ""
        return " ".join(self.address) + window + (self.route.action or "")


SERVED_ROUTES = [
    ServedRoute(api, route) for api, routes in ROUTES_BY_API.items() for route in routes
]


@cache
def read_requests_by_file() -> dict[Path, tuple[SentRequest, ...]]:
    """Return the requests that each file of tests sends."""
    tests = ROOT / "tests"
    modules = [path for path in tests.rglob("*.py") if "house" not in path.parts]
    gabbi_requests = {
        path: tuple(read_gabbi_requests(path)) for path in tests.rglob("gabbits/*.yaml")
    }
    return gabbi_requests | {path: tuple(read_module_requests(path)) for path in modules}


def list_violating_routes(holds: Callable[[ServedRoute], bool]) -> list[str]:
    return [str(served) for served in SERVED_ROUTES if not holds(served)]


def is_requested_by_a_test(served, modules):
    """Return whether a test sends a request to the route or to its path below the API.

    Only requests of these modules and of helpers without another service count.
    """
    method = served.route.method
    path = re.sub(r"<path:[^>]+>", "{...}", f"/{served.api}{served.route.path}")
    template = re.sub(r"<[^>]+>", "{}", path).rstrip("/")
    subpath = template.removeprefix(f"/{served.api}")
    return any(
        (
            request.matches_route(method, template)
            or (f"/{served.api}" in request.text and request.matches_route(method, subpath))
        )
        and (served.route.action or "") in request.text
        for path, requests in read_requests_by_file().items()
        if path in modules or is_test_helper(path)
        for request in requests
    )


def is_test_helper(path):
    return not path.match("test_*.py") and FOLDERS_WITH_OTHER_SERVICES.isdisjoint(path.parts)
