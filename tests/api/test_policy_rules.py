# SPDX-License-Identifier: Apache-2.0
"""Policy rules of all routes, and the commands of oslo.policy that list them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from placement_sched.api.compute import microversions as compute
from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.image import API as IMAGE
from placement_sched.api.placement import microversions as placement
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import PARAMETER
from placement_sched.api.scheduler.routes import API as SCHEDULER

DEFAULT_CHECKS = {rule.name: rule.check_str for rule in RULES}
NEWEST_MICROVERSIONS = {"placement": placement.NEWEST, "compute": compute.NEWEST}
API_ROUTES = [
    (api.name, route) for api in (PLACEMENT, COMPUTE, IMAGE, SCHEDULER) for route in api.routes
]
ROUTES_WITH_RULE = [(name, route) for name, route in API_ROUTES if not route.public]

#: The roles besides ``admin`` that each rule of the compute and image APIs allows by default.
ROLES_OF_PROJECT_RULES = {
    **dict.fromkeys(("get_images", "get_image", "download_image"), ("reader", "member")),
    **dict.fromkeys(("add_image", "modify_image", "delete_image", "upload_image"), ("member",)),
    "os_compute_api:flavors": ("reader",),
    "os_compute_api:os-availability-zone:list": ("reader",),
    **{
        f"os_compute_api:{noun}:{verb}": (role,)
        for role, noun, verbs in (
            ("reader", "os-flavor-extra-specs", ("index", "show")),
            ("reader", "os-server-groups", ("index", "show")),
            ("member", "os-server-groups", ("create", "delete")),
            ("reader", "servers", ("index", "detail", "show")),
            ("member", "servers", ("create", "update", "delete")),
        )
        for verb in verbs
    },
}
#: The rules of lists that callers may read only for their own project.
RULES_OF_A_PROJECT = {"placement:usages", "os_compute_api:os-migrations:index"}
ALL_ROLES = {"admin", "service", "member", "reader", "other"}
#: The roles of rules whose default differs from the other rules of their API.
ROLES_OF_SPECIAL_RULES = {
    "placement:usages": {"admin", "service", "reader"},
    "placement:reshaper:reshape": {"service"},
    "scheduler:plan_runs:execute": {"admin"},
    "scheduler:root:show": ALL_ROLES,
}


def list_default_roles(rule):
    """Return the roles that a rule allows by default."""
    service = ("service",) if rule.startswith(("placement:", "scheduler:")) else ()
    return ROLES_OF_SPECIAL_RULES.get(
        rule, {"admin", *service, *ROLES_OF_PROJECT_RULES.get(rule, ())}
    )


def send_request(app, api, route, roles, token="bob:shop"):
    """Send a request that passes all checks before the policy check."""
    path = PARAMETER.sub("1", f"/{api}{route.path}")
    query = "?project_id=shop" if route.policy in RULES_OF_A_PROJECT else ""
    headers = {"X-Auth-Token": token, "X-Roles": roles}
    if api in NEWEST_MICROVERSIONS:
        headers["OpenStack-API-Version"] = f"{api} {min(route.until, NEWEST_MICROVERSIONS[api])}"
    body = b""
    if route.takes_body:
        headers["Content-Type"] = route.content_types[0]
        body = (
            b"" if route.data else b'{"%b": {}}' % route.action.encode() if route.action else b"{}"
        )
    return app.request(
        f"{path}{query}", method=route.method, headers=headers, body=body, status="*"
    )


def is_forbidden(response, route):
    return response.status_int == 403 and f"Policy does not allow {route.policy}" in response.text


def test_only_public_routes_have_no_policy_rule():
    assert all((route.policy in DEFAULT_CHECKS) is not route.public for _, route in API_ROUTES)


def test_each_route_requires_the_roles_of_its_policy_rule(sqlite_app):
    for api, route in ROUTES_WITH_RULE:
        assert send_request(sqlite_app, api, route, "admin", token="").status_int == 401, route
        allowed = list_default_roles(route.policy)
        for role in allowed:
            assert not is_forbidden(send_request(sqlite_app, api, route, role), route), (
                route,
                role,
            )
        if others := ",".join(ALL_ROLES - allowed):
            assert is_forbidden(send_request(sqlite_app, api, route, others), route), route


@pytest.mark.slow
def test_each_route_requires_the_role_of_its_configured_policy_rule(make_app_with_policy_rules):
    app = make_app_with_policy_rules(
        {route.policy: "role:operator" for _, route in ROUTES_WITH_RULE}
    )
    for api, route in ROUTES_WITH_RULE:
        assert not is_forbidden(send_request(app, api, route, "operator"), route), route
        assert is_forbidden(send_request(app, api, route, "admin"), route), route


def run_policy_command(
    command: str, folder: Path, *arguments: str, **environment: str
) -> tuple[int, str]:
    """Run a command of oslo.policy and return its status and output."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name(f"oslopolicy-{command}"),
            *("--namespace", "placement_sched", *arguments),
        ],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A configuration file with the policy file ``policy.yaml`` in the same folder."""
    file = tmp_path / "placement.conf"
    file.write_text(f"[oslo_policy]\npolicy_file = {tmp_path / 'policy.yaml'}\n")
    return file


@pytest.mark.slow
def test_oslopolicy_sample_has_every_rule_with_its_default_and_operations(tmp_path):
    status, sample = run_policy_command("sample-generator", tmp_path)
    assert status == 0
    rules = "\n".join(line[1:] for line in sample.splitlines() if line.startswith('#"'))
    assert yaml.safe_load(rules) == DEFAULT_CHECKS
    for _, route in ROUTES_WITH_RULE:
        path = PARAMETER.sub(r"{\1}", route.path)
        assert f"# {route.method}  {path}\n" in sample


@pytest.mark.slow
def test_oslopolicy_policy_generator_merges_the_policy_file_into_the_defaults(
    tmp_path, config_file
):
    (tmp_path / "policy.yaml").write_text('"placement:traits:list": "role:reader"\n')
    status, rules = run_policy_command(
        "policy-generator", tmp_path, PLACEMENT_SCHED_CONFIG=str(config_file)
    )
    assert status == 0
    assert yaml.safe_load(rules) == {**DEFAULT_CHECKS, "placement:traits:list": "role:reader"}


@pytest.mark.slow
def test_redundant_policy_rules_are_listed(tmp_path, config_file):
    (tmp_path / "policy.yaml").write_text(
        '"placement:traits:list": "rule:admin_or_service_api"\n"scheduler:explain": "@"\n'
    )
    status, output = run_policy_command(
        "list-redundant", tmp_path, "--config-file", str(config_file)
    )
    assert status == 0
    assert '"placement:traits:list": "rule:admin_or_service_api"' in output
    assert '"scheduler:explain"' not in output


@pytest.mark.slow
def test_oslopolicy_validator_reports_an_unknown_rule(tmp_path, config_file):
    (tmp_path / "policy.yaml").write_text('"placement:trait:list": "role:reader"\n')
    code, printed = run_policy_command("validator", tmp_path, "--config-file", str(config_file))
    assert (code, "Unknown rule" in printed) == (1, True)


@pytest.mark.slow
def test_missing_configuration_of_oslopolicy_is_a_one_line_error(tmp_path):
    status, text = run_policy_command("validator", tmp_path, PLACEMENT_SCHED_CONFIG="/no/such.conf")
    assert status == 1
    assert text == "/no/such.conf: No such file or directory\n"
