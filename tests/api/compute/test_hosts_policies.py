# SPDX-License-Identifier: Apache-2.0
"""Policy rules of services and hypervisors."""

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf
from tests.api.compute.hosts import HYPERVISORS, SERVICES, HostApi
from tests.support.reports import node_uuid

NAMED = {"host": "cn1", "binary": "nova-compute"}
CALLS = [
    ("os-services:list", "GET", SERVICES, None, "2.53"),
    ("os-services:update", "PUT", f"{SERVICES}/enable", NAMED, "2.52"),
    ("os-services:update", "PUT", f"{SERVICES}/disable", NAMED, "2.52"),
    (
        "os-services:update",
        *("PUT", f"{SERVICES}/disable-log-reason", {**NAMED, "disabled_reason": "x"}, "2.52"),
    ),
    (
        "os-services:update",
        *("PUT", f"{SERVICES}/force-down", {**NAMED, "forced_down": True}, "2.52"),
    ),
    ("os-services:update", "PUT", f"{SERVICES}/{node_uuid(1)}", {"status": "enabled"}, "2.53"),
    ("os-services:delete", "DELETE", f"{SERVICES}/{node_uuid(1)}", None, "2.53"),
    ("os-hypervisors:list", "GET", HYPERVISORS, None, "2.53"),
    ("os-hypervisors:list-detail", "GET", f"{HYPERVISORS}/detail", None, "2.53"),
    ("os-hypervisors:statistics", "GET", f"{HYPERVISORS}/statistics", None, "2.53"),
    ("os-hypervisors:show", "GET", f"{HYPERVISORS}/{node_uuid(1)}", None, "2.53"),
    ("os-hypervisors:uptime", "GET", f"{HYPERVISORS}/{node_uuid(1)}/uptime", None, "2.53"),
    ("os-hypervisors:search", "GET", f"{HYPERVISORS}/cn/search", None, "2.52"),
    ("os-hypervisors:servers", "GET", f"{HYPERVISORS}/cn/servers", None, "2.52"),
]


def send_call(hosts, call, token, roles=None):
    _, method, path, body, version = call
    options = {"version": version, "token": token, "roles": roles, "status": "*"}
    return hosts.request(method, path, body, **options)


def test_each_call_requires_an_administrator(sqlite_hosts):
    for call in CALLS:
        answer = send_call(sqlite_hosts, call, "bob:shop", "reader,member")
        assert answer.status_int == 403, call
        assert f"os_compute_api:{call[0]}" in answer.json["forbidden"]["message"], call
        assert send_call(sqlite_hosts, call, "").status_int == 401, call
        for token, roles in (("admin", None), ("bob:shop", "member,admin")):
            assert send_call(sqlite_hosts, call, token, roles).status_int not in {401, 403}, call


def test_each_call_follows_the_configured_rule(make_app, sqlite_url, tmp_path):
    rules = {call[0] for call in CALLS}
    policy = tmp_path / "policy.yaml"
    policy.write_text("".join(f'"os_compute_api:{rule}": "role:operator"\n' for rule in rules))
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = {sqlite_url}\n[oslo_policy]\npolicy_file = {policy}\n"
    )
    hosts = HostApi(make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)]))))
    for call in CALLS:
        assert send_call(hosts, call, "bob", "operator").status_int != 403, call
        assert send_call(hosts, call, "admin").status_int == 403, call
