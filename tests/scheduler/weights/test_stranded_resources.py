# SPDX-License-Identifier: Apache-2.0
"""Weigher of stranded amounts."""

from dataclasses import replace

import pytest

from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.hardware.numa import NUMATopology
from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.scheduler.host_state import set_candidates
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.weights import IncrementalWeighing, run_weighers
from placement_sched.scheduler.weights.ram import RAMWeigher
from placement_sched.scheduler.weights.stranded_resources import StrandedResourcesWeigher
from tests.conftest import make_settings
from tests.model.hardware.stranding import (
    GPU_ALIAS,
    GPU_ALIASES,
    build_flavor,
    build_gpu_pools,
    build_numa_cell,
    build_pinned_flavor,
)
from tests.scheduler.weights.weighing import run_weigher, weigh_hosts
from tests.support.api_clouds import SELECT_PATH, store_flavor
from tests.support.scheduling import FLAVOR, make_report, make_spec
from tests.support.statements import record_statements
from tests.support.states import build_host_state, build_settings, build_spec

WEIGHER_NAME = "StrandedResourcesWeigher"
MULTIPLIER_OPTION = "filter_scheduler__stranded_resources_weight_multiplier"
WEIGHER_OPTIONS = {MULTIPLIER_OPTION: 10.0, "pci__alias": [GPU_ALIAS]}
RESOURCE_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")


def build_request(flavor, *flavors):
    """Return a request for a flavor, in a cloud with these flavors."""
    request = build_spec(flavor=flavor.as_document())
    hardware = request.hardware
    requests = InstancePCIRequests(requests=hardware.build_pci_requests(GPU_ALIASES))
    topology = hardware.numa_topology
    return replace(
        request, numa_topology=topology, pci_requests=requests, cloud_flavors=tuple(flavors)
    )


def build_host(name, cpus=8, ram=16, disk=100, **fields):
    """Return a host with free amounts: CPUs, memory and disk in GB."""
    state = build_host_state(
        name,
        vcpus_used=0,
        vcpus_total=cpus,
        total_usable_ram_mb=1024 * ram,
        free_ram_mb=1024 * ram,
        total_usable_disk_gb=1000,
        free_disk_mb=1024 * disk,
        **fields,
    )
    set_candidates(state, [AllocationRequest.from_json({})])
    return state


def find_best_host(hosts, request):
    return (
        run_weigher(StrandedResourcesWeigher, hosts, request, **WEIGHER_OPTIONS).hosts[0].obj.host
    )


SMALL_FLAVOR, LARGE_FLAVOR = build_flavor(1, 1024), build_flavor(8, 8192)


def build_host_with_numa_nodes(name, *nodes, **fields):
    return build_host(name, 40, 64, numa_topology=NUMATopology(nodes), **fields)


def test_stranded_resources_weigher_keeps_whole_numa_nodes_free():
    small, large = build_pinned_flavor(2, 2), build_pinned_flavor(8, 8)
    hosts = [
        build_host_with_numa_nodes("cn1", build_numa_cell(0, 8, 8), build_numa_cell(1, 8, 8)),
        build_host_with_numa_nodes(
            "cn2", build_numa_cell(0, 8, 8), build_numa_cell(1, 8, 6, used=2)
        ),
    ]
    # The less used node of cn2 is tried first, and an instance would break it.
    settings = {"compute__packing_host_numa_cells_allocation_strategy": True}
    plugins = get_plugins(
        build_settings(**settings, filter_scheduler__enabled_filters=["NUMATopologyFilter"])
    )
    request = build_request(small, small, large)
    for plugin in plugins.filters:
        verdict = plugin.prepare(request)
        for state in hosts:
            state.limits.update(verdict(state).limits)
    assert find_best_host(hosts, request) == "cn2"


def test_stranded_resources_weigher_keeps_huge_pages_free():
    """Instances with small pages avoid hosts with huge pages that another flavor needs."""
    huge = build_pinned_flavor(4, 8)
    hosts = [
        build_host_with_numa_nodes("cn1", build_numa_cell(0, 4, 8, shared=4)),
        build_host_with_numa_nodes("cn2", build_numa_cell(0, 4, 0, shared=4)),
    ]
    for state in hosts:
        state.free_ram_mb = 8 * 1024
    assert find_best_host(hosts, build_request(build_flavor(1, 1024), huge)) == "cn2"


def test_stranded_resources_weigher_keeps_pci_devices_free():
    """Instances without devices avoid hosts with devices that another flavor needs."""
    gpu = build_flavor(4, 4096, extra_specs={"pci_passthrough:alias": "gpu:1"})
    hosts = [
        build_host("cn1", 8, 8, pci_stats=build_gpu_pools((0, 2))),
        build_host("cn2", 8, 8, pci_stats=build_gpu_pools()),
    ]
    plain = build_flavor(2, 2048)
    assert find_best_host(hosts, build_request(plain, plain, gpu)) == "cn2"
    # Pairs of devices stay together.
    pair = build_flavor(4, 4096, extra_specs={"pci_passthrough:alias": "gpu:2"})
    hosts = [
        build_host("cn1", pci_stats=build_gpu_pools((0, 2))),
        build_host("cn2", pci_stats=build_gpu_pools((0, 1))),
    ]
    assert find_best_host(hosts, build_request(gpu, gpu, pair)) == "cn2"
    # Weighing changes no host.
    assert [state.pci_stats.free for state in hosts] == [2, 1]
    assert [state.num_instances for state in hosts] == [0, 0]


def test_stranded_resources_weigher_runs_only_with_a_multiplier():
    def list_weigher_names(**options):
        return [type(plugin).__name__ for plugin in get_plugins(build_settings(**options)).weighers]

    assert WEIGHER_NAME not in list_weigher_names()
    assert WEIGHER_NAME in list_weigher_names(**WEIGHER_OPTIONS)
    assert list_weigher_names(**WEIGHER_OPTIONS) == sorted([*list_weigher_names(), WEIGHER_NAME])


def test_hosts_have_equal_stranded_weights_in_a_cloud_without_flavors():
    hosts = [build_host("cn1"), build_host("cn2", 4)]
    weights = [("cn1", 0.0), ("cn2", 0.0)]
    assert (
        weigh_hosts(StrandedResourcesWeigher, hosts, build_request(SMALL_FLAVOR), **WEIGHER_OPTIONS)
        == weights
    )


def test_explanation_has_the_stranded_amounts():
    flavors = [build_flavor(2, 4096), build_flavor(4, 8192)]
    hosts = [build_host("cn1", 8, 8, disk=0), build_host("cn2", 8, 16, disk=0)]
    run = run_weigher(
        StrandedResourcesWeigher, hosts, build_request(SMALL_FLAVOR, *flavors), **WEIGHER_OPTIONS
    )
    # 2 of 3 CPUs and 5 of 6 GB that the average flavor has.
    for row in run.build_host_reports():
        assert row.weights[WEIGHER_NAME].raw == pytest.approx(-2 / 3 - 5 / 6)
    details = {
        row.host: row.weights[WEIGHER_NAME].as_json()["detail"] for row in run.build_host_reports()
    }
    assert details == {
        "cn1": "leaves 5 VCPU and 3,072 MEMORY_MB, whichever flavor fills the host, and strands "
        "2 VCPU and 5,120 MEMORY_MB more for the average flavor",
        "cn2": "leaves 1 VCPU and 3,072 MEMORY_MB, whichever flavor fills the host, and strands "
        "2 VCPU and 5,120 MEMORY_MB more for the average flavor",
    }
    assert run.build_reports(run.hosts) == run.build_host_reports()


def test_later_instances_have_the_stranded_weights_of_a_complete_run():
    settings = build_settings(**WEIGHER_OPTIONS)
    weighers = [kind.with_settings(settings) for kind in (StrandedResourcesWeigher, RAMWeigher)]
    hosts = [build_host(f"cn{number}", 8 + number, 16 + 2 * number) for number in range(5)]
    request, weighing = (
        build_request(SMALL_FLAVOR, SMALL_FLAVOR, LARGE_FLAVOR),
        IncrementalWeighing(weighers),
    )
    for _ in range(20):
        step, complete = weighing.weigh(hosts, request), run_weighers(weighers, hosts, request)
        assert step.build_host_reports() == complete.build_host_reports()
        chosen = step.hosts[0].obj
        chosen.consume_from_request(request)
        weighing.record_change(chosen)
        hosts = [state for state in hosts if state.free_ram_mb > 0]
    reports = weighing.weigh(hosts[:2], request).build_host_reports()
    assert reports == run_weighers(weighers, hosts[:2], request).build_host_reports()


@pytest.fixture
def cloud(sqlite_url, make_app):
    """Three hosts, limited by memory and by CPUs, and a stored flavor."""
    app = make_app(make_settings(sqlite_url, **WEIGHER_OPTIONS))
    hosts = [
        make_report("cn1", vcpus=16, memory_mb=4500),
        make_report("cn2", vcpus=4, memory_mb=65536),
        make_report("cn3", vcpus=8, memory_mb=20000, local_gb=77),
    ]
    app.post_json("/scheduler/v1/compute_nodes", hosts)
    store_flavor(app, "m2", vcpus=3, ram=2048, disk=10)
    return app


def explain_weights_by_host(app, **fields):
    response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec(**fields)}).json
    return {entry["host"]: entry["weights"] for entry in response["hosts"]}


def test_request_sends_one_sql_statement_for_unchanged_flavors(cloud, make_app, sqlite_url):
    def count_statements(app):
        explain_weights_by_host(app)
        with record_statements(app.app.services.database) as seen:
            explain_weights_by_host(app)
        return len(seen)

    assert count_statements(cloud) == count_statements(make_app(make_settings(sqlite_url))) + 1


def test_stranded_weight_detail_is_in_explanation_and_decision(cloud):
    weights = explain_weights_by_host(cloud)
    assert set(weights) == {"cn1", "cn2", "cn3"}
    assert all(
        "whichever flavor fills" in weight[WEIGHER_NAME]["detail"] for weight in weights.values()
    )
    response = cloud.post_json(SELECT_PATH, {"request_spec": make_spec(flavor=FLAVOR)}).json
    decision = cloud.get(f"/scheduler/v1/decisions/{response['decision']}").json
    assert "whichever flavor fills" in decision["best"][0]["weights"][WEIGHER_NAME]["detail"]
