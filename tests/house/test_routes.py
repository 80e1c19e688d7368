# SPDX-License-Identifier: Apache-2.0
"""Every route of every API is guarded and checked, and has a test."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.identity import API as IDENTITY
from placement_sched.api.image import API as IMAGE
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import Blueprint, Route
from placement_sched.api.scheduler.routes import API as SCHEDULER
from tests.house.requests_sent import SentRequest, read_gabbi_requests, read_module_requests
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.slow

ROUTES_BY_API = {
    "placement": PLACEMENT.routes,
    "compute": COMPUTE.routes,
    "image": IMAGE.routes,
    "identity": IDENTITY.routes,
    "scheduler": SCHEDULER.routes,
}
#: Routes that write without a body, or that reject every request.
BODYLESS_ROUTES = {
    ("PUT", "/placement/traits/{}"),
    ("PUT", "/placement/resource_classes/{}"),
    ("POST", "/compute/v2.1/servers"),
    ("PUT", "/compute/v2.1/servers/{}"),
    ("POST", "/compute/v2.1/servers/{}/action"),
    ("POST", "/identity/v3/{}"),
    ("PUT", "/identity/v3/{}"),
    ("PATCH", "/identity/v3/{}"),
    ("PUT", "/image/v2/images/{}/tags/{}"),
    ("POST", "/image/v2/images/{}/actions/deactivate"),
    ("POST", "/image/v2/images/{}/actions/reactivate"),
    ("POST", "/image/v2/images/{}/members"),
    ("PUT", "/image/v2/images/{}/members/{}"),
}
#: Test folders that need another service or belong to make test-only WHAT=chaos.
FOLDERS_WITH_OTHER_SERVICES = {"chaos", "coexistence", "differential", "nova", "openstack_client"}
#: Routes with a binary body.
BINARY_BODY_ROUTES = {("PUT", "/image/v2/images/{}/file")}


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


def test_routes_have_a_policy_unless_public():
    rules = {rule.name for rule in RULES}

    def has_policy_unless_public(served):
        return served.route.policy is None if served.route.public else served.route.policy in rules

    assert list_violating_routes(has_policy_unless_public) == []


def test_routes_with_a_body_have_a_schema_at_every_version():
    assert list_violating_routes(has_body_schemas) == []


def has_body_schemas(served):
    route = served.route
    if route.body is not None:
        oldest = max(route.since, min(since for since, _ in route.body.windows))
        schemas = [route.body.find_schema(oldest), *(schema for _, schema in route.body.windows)]
        return None not in schemas
    writes = route.method in {"POST", "PUT", "PATCH"}
    return not writes or served.address in (BINARY_BODY_ROUTES if route.data else BODYLESS_ROUTES)


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


def test_policy_rules_are_described():
    assert [rule.name for rule in RULES if not rule.description.strip().endswith(".")] == []


def test_no_policy_rule_is_declared_twice():
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted(set(names))


def test_every_route_of_a_module_is_registered():
    """A route whose blueprint no API lists would not be served."""
    for api, routes in ROUTES_BY_API.items():
        names = [f"placement_sched.api.{api}"]
        names += [f"{names[0]}.{path.stem}" for path in (PACKAGE / "api" / api).glob("[!_]*.py")]
        declared = {
            id(route)
            for name in names
            for value in vars(import_module(name)).values()
            if isinstance(value, Blueprint)
            for route in value.routes
        }
        assert declared == {id(route) for route in routes}
