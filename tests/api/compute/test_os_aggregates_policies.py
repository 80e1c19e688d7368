# SPDX-License-Identifier: Apache-2.0
"""Policy rules of host aggregates."""

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.api.compute.conftest import URL

CALLS = [
    ("index", "GET", URL, None),
    ("create", "POST", URL, {"aggregate": {"name": "a"}}),
    ("show", "GET", f"{URL}/1", None),
    ("update", "PUT", f"{URL}/1", {"aggregate": {"name": "a"}}),
    ("delete", "DELETE", f"{URL}/1", None),
    ("add_host", "POST", f"{URL}/1/action", {"add_host": {"host": "h1"}}),
    ("remove_host", "POST", f"{URL}/1/action", {"remove_host": {"host": "h1"}}),
    ("set_metadata", "POST", f"{URL}/1/action", {"set_metadata": {"metadata": {}}}),
]
RULES = [(f"os_compute_api:os-aggregates:{rule}", *call) for rule, *call in CALLS]
RULES.append(
    (
        "compute:aggregates:images",
        "POST",
        f"{URL}/1/images",
        {"cache": [{"id": "70a599e0-31e7-49b7-b260-868f441e862b"}]},
    )
)


def send_call(app, method, path, body, token, roles=None):
    headers = {"X-Auth-Token": token, "OpenStack-API-Version": "compute 2.96"}
    if roles is not None:
        headers["X-Roles"] = roles
    if body is None:
        return app.request(path, method=method, headers=headers, status="*")
    return getattr(app, f"{method.lower()}_json")(path, body, headers=headers, status="*")


@pytest.mark.parametrize(("rule", "method", "path", "body"), RULES)
def test_each_call_requires_an_administrator(sqlite_app, rule, method, path, body):
    answer = send_call(sqlite_app, method, path, body, "bob:shop")
    assert answer.status_int == 403
    assert rule in answer.json["forbidden"]["message"]
    allowed = {send_call(sqlite_app, method, path, body, "admin").status_int}
    allowed.add(send_call(sqlite_app, method, path, body, "bob:shop", "member,admin").status_int)
    assert not allowed & {401, 403}


@pytest.mark.parametrize(("rule", "method", "path", "body"), RULES)
def test_each_call_follows_the_configured_rule(
    make_app, sqlite_url, tmp_path, rule, method, path, body
):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'"{rule}": "role:operator"\n')
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = {sqlite_url}\n[oslo_policy]\npolicy_file = {policy}\n"
    )
    app = make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
    assert send_call(app, method, path, body, "bob", "operator").status_int != 403
    assert send_call(app, method, path, body, "admin").status_int == 403
