# SPDX-License-Identifier: Apache-2.0
"""Requests to an application with an old nova.conf."""

from pathlib import Path

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.support.scheduling import get_selected_hosts, make_report, make_spec, select_hosts

pytestmark = pytest.mark.slow

OLD_NOVA_CONF_FOLDER = Path(__file__).parents[1] / "config" / "old_files"
ISOLATED_IMAGE = {"id": "11111111-1111-4111-8111-111111111111"}

#: Files, requests and the selected hosts.
EXPECTED_HOSTS_BY_ERA = [
    # The negative multiplier prefers hosts with less memory. cn1 is the smallest host not
    # isolated.
    pytest.param("icehouse", {}, "cn1", id="icehouse-packs"),
    pytest.param("stein", {}, "cn1", id="stein-packs"),
    # The isolated image may use only the isolated host.
    pytest.param("icehouse", {"image": ISOLATED_IMAGE}, "cn3", id="icehouse-isolates"),
    pytest.param("stein", {"image": ISOLATED_IMAGE}, "cn3", id="stein-isolates"),
    # Hosts without an availability zone are in the default zone.
    pytest.param("icehouse", {"availability_zone": "site1"}, "cn1", id="icehouse-zone"),
    pytest.param("stein", {"availability_zone": "nova"}, "cn1", id="stein-zone"),
]


@pytest.fixture
def build_app_with_old_nova_conf(make_app, sqlite_url, monkeypatch):
    """Return a function that creates an application with an old configuration file."""
    # The files configure keystone, but no keystone runs.
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    return lambda era: make_app(
        read_settings([str(OLD_NOVA_CONF_FOLDER / f"{era}.conf")], make_full_conf())
    )


@pytest.mark.parametrize(("era", "request_fields", "host"), EXPECTED_HOSTS_BY_ERA)
def test_old_nova_conf_decides_which_host_is_selected(
    build_app_with_old_nova_conf, era, request_fields, host
):
    app = build_app_with_old_nova_conf(era)
    of_x86 = {"supported_hv_specs": [["x86_64", "qemu", "hvm"]]}
    memory = {"cn1": 16384, "cn2": 32768, "cn3": 65536}
    hosts = [make_report(name, memory_mb=size, **of_x86) for name, size in memory.items()]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    assert get_selected_hosts(select_hosts(app, make_spec(**request_fields))) == [host]


def test_cpu_ratio_of_icehouse_nova_conf_applies_to_hosts_that_report_none(
    build_app_with_old_nova_conf,
):
    app = build_app_with_old_nova_conf("icehouse")
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1)])
    for _ in range(16):  # 16 virtual CPUs per physical CPU
        select_hosts(app, make_spec())
    select_hosts(app, make_spec(), status=409)
