# SPDX-License-Identifier: Apache-2.0
"""Host states with the names and the arithmetic of nova."""

import pytest

from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.compute_node import Metric, Service
from placement_sched.model.hardware.numa import NUMACell
from placement_sched.scheduler.host_state import (
    NO_SERVICE,
    HostState,
    build_service_view,
    get_candidates,
    make_host_state,
    set_candidates,
)
from placement_sched.schemas.node_report import Defaults, parse
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.states import build_aggregates, build_spec

#: Public attributes of nova 34's HostState, seen with dir() after an update.
NOVA_HOST_STATE_ATTRIBUTES = """
    aggregates allocation_candidates cell_uuid consume_from_request cpu_allocation_ratio cpu_info
    disk_allocation_ratio disk_mb_used failed_builds free_disk_mb free_ram_mb host host_ip
    hypervisor_hostname hypervisor_type hypervisor_version instances limits metrics nodename
    num_instances num_io_ops numa_topology pci_stats ram_allocation_ratio service stats
    supported_instances total_usable_disk_gb total_usable_ram_mb update updated uuid vcpus_total
    vcpus_used
"""
DISABLED_SERVICE = build_service_view(
    Service(
        id=7,
        uuid=node_uuid(7),
        host="cn1",
        binary="nova-compute",
        disabled=True,
        disabled_reason="why",
        forced_down=False,
        last_seen_up=NOW,
        updated_at=NOW,
    )
)


def build_reported_host_state(**report):
    return make_host_state(parse(build_report(**report), Defaults(now=NOW)).node, DISABLED_SERVICE)


def test_host_state_has_only_the_attribute_names_of_nova():
    names = {name for name in dir(build_reported_host_state()) if not name.startswith("_")}
    # nova fills a host state with ``update``. This service creates it with all values.
    assert names == set(NOVA_HOST_STATE_ATTRIBUTES.split()) - {"update"}


def test_host_state_has_the_values_of_the_report():
    state = build_reported_host_state(
        cell_uuid=node_uuid(9),
        vcpus_used=2,
        memory_mb_used=1024,
        local_gb_used=10,
        cpu_allocation_ratio=2.0,
        supported_hv_specs=[["amd64", "kvm", "hvm"]],
        stats={"num_instances": 3, "io_workload": 2, "failed_builds": 1, "foo": "7"},
        metrics=[{"name": "cpu.frequency", "value": 1600, "source": "s", "timestamp": None}],
        host_ip="192.0.2.1",
        hypervisor_version=1005003,
    )
    assert (state.host, state.nodename, state.uuid) == ("cn1", "cn1", node_uuid(1))
    assert state.cell_uuid == node_uuid(9)
    assert (state.vcpus_total, state.vcpus_used, state.cpu_allocation_ratio) == (8, 2, 2.0)
    assert (state.total_usable_ram_mb, state.free_ram_mb) == (16384, 15360)
    assert (state.total_usable_disk_gb, state.disk_mb_used) == (100, 10240)
    assert state.free_disk_mb == 90 * 1024
    assert (state.num_instances, state.num_io_ops, state.failed_builds) == (3, 2, 1)
    assert state.stats["foo"] == "7"
    assert state.supported_instances == [["x86_64", "kvm", "hvm"]]
    assert (state.host_ip, state.hypervisor_version) == ("192.0.2.1", 1005003)
    assert [(metric.name, metric.value) for metric in state.metrics] == [("cpu.frequency", 1600)]
    assert isinstance(state.metrics[0], Metric)


@pytest.mark.parametrize(
    ("least", "free_gb"), [(None, 90), (95, 90), (90, 90), (50, 50), (0, 0), (-5, -5)]
)
def test_disk_available_least_caps_the_free_disk(least, free_gb):
    free = build_reported_host_state(local_gb_used=10, disk_available_least=least).free_disk_mb
    assert free == free_gb * 1024


def test_host_state_is_empty_if_the_node_reports_no_free_disk():
    node = parse(build_report(free_disk_gb=None), Defaults(now=NOW)).node
    shared = build_aggregates({"ssd": "true"})
    state = make_host_state(node, DISABLED_SERVICE, shared)
    assert (state.uuid, state.free_ram_mb, state.vcpus_total, state.updated) == (None, 0, 0, None)
    assert state.cpu_allocation_ratio is state.supported_instances is None
    assert (state.host, state.aggregates) == ("cn1", shared)
    assert state.service["disabled"]


def test_free_memory_of_a_host_state_is_reported_or_computed():
    assert build_reported_host_state(memory_mb_used=1000, free_ram_mb=None).free_ram_mb == 15384
    assert build_reported_host_state(memory_mb_used=1000, free_ram_mb=5).free_ram_mb == 5
    assert repr(HostState("h", "n")) == "(h, n) ram: 0MB disk: 0MB io_ops: 0 instances: 0"


def test_service_of_a_host_has_the_keys_of_nova():
    service = build_reported_host_state().service
    keys = "binary created_at deleted deleted_at disabled disabled_reason forced_down host id"
    keys += " last_seen_up report_count topic updated_at uuid version"
    assert sorted(service) == keys.split()
    assert (service["version"], service["topic"], service["report_count"]) == (66, "compute", 0)
    assert NO_SERVICE.keys() == service.keys()
    assert (NO_SERVICE["version"], NO_SERVICE["host"]) == (66, None)


@pytest.mark.parametrize(("recorded", "version"), [(74, 74), (0, 0), (None, 66)])
def test_service_has_its_recorded_version(recorded, version):
    service = Service(1, node_uuid(7), "cn1", "nova-compute", version=recorded)
    assert build_service_view(service)["version"] == version


def test_service_has_its_creation_time():
    service = Service(1, node_uuid(7), "cn1", "nova-compute", created_at=NOW)
    assert build_service_view(service)["created_at"] == NOW


def test_service_is_a_mapping_as_in_nova():
    service = build_reported_host_state().service
    assert service["disabled"] is True
    assert service["disabled_reason"] == service.get("disabled_reason") == "why"
    assert (service["host"], service["last_seen_up"]) == ("cn1", NOW)
    assert service.get("nope") is None
    assert set(service) >= {"host", "disabled", "disabled_reason", "last_seen_up"}
    assert len(service) == len(list(service))
    with pytest.raises(KeyError):
        service["is_up"]
    service = make_host_state(parse(build_report(), Defaults(now=NOW)).node).service
    assert service is NO_SERVICE
    assert service["last_seen_up"] is None


def test_instance_of_the_request_uses_resources_of_the_host_state():
    state = build_reported_host_state(stats={"num_instances": 3, "io_workload": 2})
    flavor = {"vcpus": 2, "memory_mb": 128, "root_gb": 5, "ephemeral_gb": 3, "swap": 512}
    state.consume_from_request(build_spec(flavor=flavor))
    assert state.free_ram_mb == 16384 - 128
    assert state.free_disk_mb == (100 - 8) * 1024
    assert (state.vcpus_used, state.num_instances, state.num_io_ops) == (2, 4, 3)


def build_reported_topology(*cells):
    """Return reported nodes with a shared CPU, a CPU for pinning and 1024 MB each."""
    plain = {"cpuset": [0], "pcpuset": [1], "memory": 1024, "siblings": [[0], [1]]}
    return {"cells": [{"id": number, **plain, **cell} for number, cell in enumerate(cells)]}


def build_request_for_one_numa_node(**fields):
    cell = {"cpuset": [], "pcpuset": [0], "memory": 512, "cpu_policy": "dedicated"}
    return build_spec(numa_topology={"cells": [cell]}, **fields)


def test_numa_topology_of_a_host_state_has_the_attributes_of_nova():
    state = build_reported_host_state(
        numa_topology=build_reported_topology({"pinned_cpus": [1]}, {"id": 5})
    )
    assert [cell.id for cell in state.numa_topology.cells] == [0, 5]
    assert [cell.avail_pcpus for cell in state.numa_topology.cells] == [0, 1]
    assert not state.numa_topology.has_threads
    assert build_reported_host_state().numa_topology is None


def test_instances_of_one_request_do_not_share_pinned_cpus_or_memory():
    node = parse(
        build_report(numa_topology=build_reported_topology({}, {})), Defaults(now=NOW)
    ).node
    state, other = make_host_state(node, DISABLED_SERVICE), make_host_state(node, DISABLED_SERVICE)
    for expected in ([0, 1], [1, 1], [1, 1]):  # The third instance does not fit and uses nothing.
        state.consume_from_request(build_request_for_one_numa_node())
        used = [len(cell.pinned_cpus) for cell in state.numa_topology.cells]
        assert sorted(used) == expected
    assert [cell.memory_usage for cell in state.numa_topology.cells] == [512, 512]
    # Other requests use the parsed report, so it does not change.
    assert other.numa_topology is node.numa_topology.topology
    assert [cell.memory_usage for cell in other.numa_topology.cells] == [0, 0]


def test_reported_numa_nodes_are_parsed_only_for_requests_with_numa_nodes(monkeypatch):
    state = build_reported_host_state(numa_topology=build_reported_topology({}))
    monkeypatch.setattr(NUMACell, "from_document", None)
    state.consume_from_request(build_spec())
    with pytest.raises(TypeError):
        state.consume_from_request(build_request_for_one_numa_node())


def test_candidates_are_read_from_the_json_that_a_filter_has_changed():
    requests = [
        {
            "allocations": {provider: {"resources": {"VCPU": 1}}},
            "mappings": {"": [provider], "_TRAITS": ["other"]},
        }
        for provider in ("p1", "p2", "p3")
    ]
    state = build_reported_host_state()
    set_candidates(state, [AllocationRequest.from_json(each, "root") for each in requests])
    assert state.allocation_candidates == requests
    del state.allocation_candidates[0]
    state.allocation_candidates.reverse()
    first, second = get_candidates(state)
    assert (first.allocations, second.allocations) == ({"p3": {"VCPU": 1}}, {"p2": {"VCPU": 1}})
    assert first.as_json() == requests[2]


def test_cpus_are_near_the_devices_of_the_first_candidate():
    card = {"vendor_id": "8086", "product_id": "1520"}
    pools = [{**card, "numa_node": node, "count": 1, "rp_uuid": f"p{node}"} for node in (0, 1)]
    state = build_reported_host_state(
        numa_topology=build_reported_topology({}, {}), pci_device_pools=pools
    )
    state.allocation_candidates = [
        {"allocations": {}, "mappings": {"pci-0": [provider]}} for provider in ("p1", "p0")
    ]
    device = {"count": 1, "alias_name": "nic", "request_id": "pci", "spec": [card]}
    spec = build_spec(
        numa_topology={"cells": [{"cpuset": [0], "memory": 512}]},
        pci_requests={"requests": [device]},
    )
    state.consume_from_request(spec)
    assert [cell.cpu_usage for cell in state.numa_topology.cells] == [0, 1]
    assert [pool["rp_uuid"] for pool in state.pci_stats.pools] == ["p0"]


def test_devices_and_cpus_are_of_the_same_numa_node():
    card = {"vendor_id": "8086", "product_id": "1520"}
    state = build_reported_host_state(
        numa_topology=build_reported_topology({}, {}),
        pci_device_pools=[{**card, "numa_node": node, "count": 2 - node} for node in (0, 1)],
    )
    near = {"count": 1, "spec": [card], "alias_name": "nic", "numa_policy": "required"}
    spec = build_request_for_one_numa_node(pci_requests={"requests": [near]})
    remaining = []
    for _ in range(2):
        state.consume_from_request(spec)
        devices = sorted((pool["numa_node"], pool["count"]) for pool in state.pci_stats.pools)
        remaining.append(([cell.avail_pcpus for cell in state.numa_topology.cells], devices))
    assert remaining == [([0, 1], [(0, 1), (1, 1)]), ([0, 0], [(0, 1)])]
