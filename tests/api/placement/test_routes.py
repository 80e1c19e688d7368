# SPDX-License-Identifier: Apache-2.0
"""Every route of the Placement API has a policy rule with placement's default."""

import pytest

from placement_sched.api.placement.routes import API
from placement_sched.api.policy_rules import PLACEMENT_RULES
from tests.support.versions import LATEST

NAMES = {rule.name for rule in PLACEMENT_RULES}


def test_every_route_is_guarded_by_a_known_rule():
    unguarded = {(route.method, route.path) for route in API.routes if route.policy not in NAMES}
    assert unguarded == {("GET", "/"), ("GET", "/openapi.json")}


def test_every_policy_rule_lists_its_operations():
    documented = {
        (rule.name, operation["method"])
        for rule in PLACEMENT_RULES
        for operation in getattr(rule, "operations", ())
    }
    assert {(route.policy, route.method) for route in API.routes if route.policy} <= documented


@pytest.mark.parametrize(
    ("roles", "status"),
    [("admin", 200), ("service", 200), ("reader", 403), ("member,reader", 403), ("", 403)],
)
def test_providers_require_administrator_or_service(sqlite_app, roles, status):
    headers = {"X-Auth-Token": "bob:shop", "X-Roles": roles}
    sqlite_app.get("/placement/resource_providers", headers=headers, status=status)


def test_reshaper_requires_the_service_role():
    (rule,) = (rule for rule in PLACEMENT_RULES if rule.name == "placement:reshaper:reshape")
    assert rule.check_str == "rule:service_api"


def test_403_error_names_the_rule(sqlite_app):
    headers = {"X-Auth-Token": "bob:shop", "OpenStack-API-Version": f"placement {LATEST}"}
    answer = sqlite_app.delete("/placement/traits/CUSTOM_GOLD", headers=headers, status=403)
    (error,) = answer.json["errors"]
    assert "placement:traits:delete" in error["detail"]
    assert error["code"] == "placement.undefined_code"
