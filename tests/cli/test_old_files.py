# SPDX-License-Identifier: Apache-2.0
"""Requests to a server with an old nova.conf."""

from pathlib import Path

import pytest

from tests.support.scheduling import report, selected_hosts, spec

pytestmark = pytest.mark.system

FILES = Path(__file__).parents[1] / "config" / "old_files"
ISOLATED = {"id": "11111111-1111-4111-8111-111111111111"}

#: Files, requests and the selected hosts.
REQUESTS = [
    # The negative multiplier prefers hosts with less memory. cn1 is the smallest host not
    # isolated.
    pytest.param("icehouse", {}, "cn1", id="icehouse-packs"),
    pytest.param("stein", {}, "cn1", id="stein-packs"),
    # The isolated image may use only the isolated host.
    pytest.param("icehouse", {"image": ISOLATED}, "cn3", id="icehouse-isolates"),
    pytest.param("stein", {"image": ISOLATED}, "cn3", id="stein-isolates"),
    # Hosts without an availability zone are in the default zone.
    pytest.param("icehouse", {"availability_zone": "site1"}, "cn1", id="icehouse-zone"),
    pytest.param("stein", {"availability_zone": "nova"}, "cn1", id="stein-zone"),
]

#: The files configure keystone, but no keystone runs.
WITHOUT_KEYSTONE = {"OS_API__AUTH_STRATEGY": "noauth2"}


@pytest.mark.parametrize(("era", "request_fields", "host"), REQUESTS)
def test_server_applies_an_old_configuration_file(serve, era, request_fields, host):
    server = serve("--config-file", str(FILES / f"{era}.conf"), **WITHOUT_KEYSTONE)
    of_x86 = {"supported_hv_specs": [["x86_64", "qemu", "hvm"]]}
    memory = {"cn1": 16384, "cn2": 32768, "cn3": 65536}
    hosts = [report(name, memory_mb=size, **of_x86) for name, size in memory.items()]
    assert server.post("/scheduler/v1/compute_nodes", hosts)[0] in (200, 201)
    status, answer = server.post(
        "/scheduler/v1/select_destinations", {"request_spec": spec(**request_fields)}
    )
    assert (status, selected_hosts(answer)) == (200, [host])


def test_ratios_of_an_old_file_apply_to_hosts_without_ratios(serve):
    server = serve("--config-file", str(FILES / "icehouse.conf"), **WITHOUT_KEYSTONE)
    server.post("/scheduler/v1/compute_nodes", [report("cn1", vcpus=1)])
    path = "/scheduler/v1/select_destinations"
    statuses = [server.post(path, {"request_spec": spec()})[0] for _ in range(17)]
    assert statuses == [200] * 16 + [409]  # 16 virtual CPUs per physical CPU
