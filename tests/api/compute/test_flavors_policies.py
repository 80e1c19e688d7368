# SPDX-License-Identifier: Apache-2.0
"""Policy rules of flavors and their extra specs."""

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.api.compute.flavors import FlavorApi

_FLAVOR = {"flavor": {"name": "x", "ram": 1, "vcpus": 1, "disk": 0}}
_EXTRA = "os_compute_api:os-flavor-extra-specs"
_ACCESS = "os_compute_api:os-flavor-access"

#: Calls that are allowed for a project's readers.
READING = [
    ("os_compute_api:flavors", "GET", "", None),
    ("os_compute_api:flavors", "GET", "/detail", None),
    ("os_compute_api:flavors", "GET", "/f", None),
    (f"{_EXTRA}:index", "GET", "/f/os-extra_specs", None),
    (f"{_EXTRA}:show", "GET", "/f/os-extra_specs/k", None),
]
#: Calls that are allowed for administrators only.
MANAGING = [
    ("os_compute_api:os-flavor-manage:create", "POST", "", _FLAVOR),
    ("os_compute_api:os-flavor-manage:update", "PUT", "/f", {"flavor": {"description": "x"}}),
    ("os_compute_api:os-flavor-manage:delete", "DELETE", "/f", None),
    (_ACCESS, "GET", "/f/os-flavor-access", None),
    (f"{_ACCESS}:add_tenant_access", "POST", "/f/action", {"addTenantAccess": {"tenant": "p"}}),
    (
        f"{_ACCESS}:remove_tenant_access",
        "POST",
        "/f/action",
        {"removeTenantAccess": {"tenant": "p"}},
    ),
    (f"{_EXTRA}:create", "POST", "/f/os-extra_specs", {"extra_specs": {"k": "v"}}),
    (f"{_EXTRA}:update", "PUT", "/f/os-extra_specs/k", {"k": "v"}),
    (f"{_EXTRA}:delete", "DELETE", "/f/os-extra_specs/k", None),
]


def response_status(api, *call, **caller):
    return api.request(*call, status="*", **caller).status_int


@pytest.fixture
def api(sqlite_flavors):
    sqlite_flavors.create("f")
    sqlite_flavors.add_extra_specs("f", {"k": "v"})
    return sqlite_flavors


@pytest.mark.parametrize(("rule", "method", "path", "body"), [*READING, *MANAGING])
def test_without_token_or_roles_nothing_is_shown(api, rule, method, path, body):
    assert response_status(api, method, path, body, token="") == 401
    answer = api.request(method, path, body, token="bob:shop", status=403)
    assert rule in answer.json["forbidden"]["message"]


@pytest.mark.parametrize(("rule", "method", "path", "body"), READING)
def test_readers_can_list_flavors(api, rule, method, path, body):
    assert response_status(api, method, path, body, token="bob:shop", roles="reader") == 200


@pytest.mark.parametrize(("rule", "method", "path", "body"), MANAGING)
def test_only_administrators_can_change_flavors(api, rule, method, path, body):
    assert response_status(api, method, path, body, token="bob:shop", roles="member,reader") == 403
    assert response_status(api, method, path, body, token="bob:shop", roles="admin") not in {
        401,
        403,
    }


@pytest.fixture
def api_with_policy_file(make_app, sqlite_url, tmp_path):
    """Return a function that returns the client of a server with this policy file."""

    def build_api(text):
        policy, file = tmp_path / "policy.yaml", tmp_path / "placement.conf"
        policy.write_text(text)
        file.write_text(
            f"[placement_database]\nconnection = {sqlite_url}\n"
            f"[oslo_policy]\npolicy_file = {policy}\n"
        )
        return FlavorApi(make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)]))))

    return build_api


@pytest.mark.parametrize(("rule", "method", "path", "body"), [*READING, *MANAGING])
def test_each_call_follows_the_configured_rule(api_with_policy_file, rule, method, path, body):
    api = api_with_policy_file(f'"{rule}": "role:operator"\n')
    assert response_status(api, method, path, body, token="bob", roles="operator") != 403
    assert response_status(api, method, path, body) == 403


def test_extra_specs_are_omitted_without_permission(api_with_policy_file):
    api = api_with_policy_file(f'"{_EXTRA}:index": "role:operator"\n')
    assert "extra_specs" not in api.create("f")
    assert "extra_specs" not in api.show("f")
    shown = api.show("f", token="bob", roles="operator,reader")
    assert shown["extra_specs"] == {}


def test_administrator_rule_is_configurable(api_with_policy_file):
    api = api_with_policy_file('"context_is_admin": "role:operator"\n')
    operator = {"token": "olga:ops", "roles": "operator"}
    body = {"flavor": {**_FLAVOR["flavor"], "id": "p", "os-flavor-access:is_public": False}}
    assert response_status(api, "POST", "", body, **operator) == 200
    assert response_status(api, "POST", "", body) == 403
    assert api.ids("?is_public=none", **operator) == ["p"]
    api.request("GET", "/p", token="bob:shop", roles="reader,admin", status=404)
