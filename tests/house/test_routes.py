# SPDX-License-Identifier: Apache-2.0
"""Every route of every API is guarded and checked, and has a test."""

from importlib import import_module

import pytest

from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import Blueprint
from tests.house.served_routes import ROUTES_BY_API, list_violating_routes
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.slow

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
#: Routes with a binary body.
BINARY_BODY_ROUTES = {("PUT", "/image/v2/images/{}/file")}


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
        oldest = max(route.since, min(since for since, _ in route.body.schemas))
        schemas = [route.body.find_schema(oldest), *(schema for _, schema in route.body.schemas)]
        return None not in schemas
    writes = route.method in {"POST", "PUT", "PATCH"}
    return not writes or served.address in (BINARY_BODY_ROUTES if route.data else BODYLESS_ROUTES)


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
        if api == "scheduler":
            names += [
                ".".join(path.relative_to(ROOT).with_suffix("").parts)
                for path in (PACKAGE / "extensions").rglob("*.py")
                if "Blueprint(" in path.read_text() and "console" not in path.parts
            ]
        declared = {
            id(route)
            for name in names
            for value in vars(import_module(name)).values()
            if isinstance(value, Blueprint)
            for route in value.routes
        }
        assert declared == {id(route) for route in routes}
