# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes, PCI devices and networks of a request."""

import json
from urllib.parse import parse_qs

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, ServiceFailed, TooComplex, UnknownResourceClassOrTrait
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.policies.registry import read_pci_aliases
from placement_sched.scheduler.request import (
    create_neutron_client,
    derive_defaults,
    with_network_data,
)
from placement_sched.scheduler.request_groups import build_groups
from placement_sched.scheduler.resource_request import find_unknown_names
from tests.scheduler.providers import add_provider, change_provider
from tests.support.clouds import uuid_of
from tests.support.neutron import UNREACHABLE_URL, build_neutron_client, run_neutron
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.states import build_settings, build_spec

GPU_ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}
FPGA_ALIAS = {"name": "fpga", "resource_class": "CUSTOM_FPGA", "traits": "custom_fast,HW_NUMA_ROOT"}
PCI_ALIASES = [json.dumps(GPU_ALIAS), json.dumps(FPGA_ALIAS)]
GPU_REQUEST = {"count": 1, "alias_name": "gpu", "request_id": "r", "spec": [GPU_ALIAS]}


def build_alias_settings(**options):
    return build_settings(
        pci__alias=PCI_ALIASES, filter_scheduler__pci_in_placement=True, **options
    )


def derive_device_groups(extra_specs=None, document=None, **options):
    """Return class and traits of each group of a PCI device, by suffix."""
    spec = build_spec(extra_specs, **(document or {}))
    spec = derive_defaults(spec, build_alias_settings(**options))
    result = build_groups(spec)
    return {
        suffix: (*result[suffix].resources.items(), *sorted(result[suffix].required))
        for suffix in result.suffixes
    }


def test_request_for_pinned_cpus_gets_a_numa_topology_of_one_node():
    spec = derive_defaults(build_spec({"hw:cpu_policy": "dedicated"}), build_settings())
    (cell,) = spec.numa_topology.cells
    assert (cell.pcpuset, cell.memory) == (frozenset({0}), 512)


@pytest.mark.parametrize("value", [None, {"cells": [{"cpuset": [0], "memory": 512}]}])
def test_numa_topology_given_in_the_request_is_not_derived_from_the_flavor(value):
    # nova's API rejects such flavors now, but accepted them before.
    extra_specs = {"hw:cpu_policy": "dedicated", "resources:VCPU": "1"}
    document = {"numa_topology": value}
    spec = derive_defaults(build_spec(extra_specs, **document), build_settings())
    assert (spec.numa_topology is None) is (value is None)
    with pytest.raises(
        Invalid, match=r"resources:VCPU.*hw:cpu_policy|hw:cpu_policy.*resources:VCPU"
    ):
        derive_defaults(build_spec(extra_specs), build_settings())


def test_pci_devices_become_request_groups_only_with_pci_in_placement():
    extra_specs = {"pci_passthrough:alias": "gpu:1"}
    outside = build_settings(pci__alias=[json.dumps(GPU_ALIAS)])
    spec = derive_defaults(build_spec(extra_specs), outside)
    assert [request.alias_name for request in spec.pci_requests.requests] == ["gpu"]
    assert spec.requested_resources == ()
    assert len(derive_device_groups(extra_specs)) == 1


def test_each_pci_device_is_a_request_group():
    result = derive_device_groups({"pci_passthrough:alias": "gpu:2,fpga:1"})
    assert sorted(result.values()) == [
        (("CUSTOM_FPGA", 1), "CUSTOM_FAST", "HW_NUMA_ROOT"),
        (("CUSTOM_PCI_10DE_1DB4", 1),),
        (("CUSTOM_PCI_10DE_1DB4", 1),),
    ]
    assert sorted(suffix.rpartition("-")[2] for suffix in result) == ["0", "0", "1"]
    assert result == derive_device_groups({"pci_passthrough:alias": "gpu:2,fpga:1"}), (
        "the same each time"
    )


def test_pci_requests_given_in_the_request_replace_those_of_the_flavor():
    extra_specs = {"pci_passthrough:alias": "gpu:5"}
    assert derive_device_groups(extra_specs, {"pci_requests": None}) == {}
    expected = {"r-0": (("CUSTOM_PCI_10DE_1DB4", 1),)}
    assert (
        derive_device_groups(extra_specs, {"pci_requests": {"requests": [GPU_REQUEST]}}) == expected
    )
    port = GPU_REQUEST | {"alias_name": None, "requester_id": "port"}
    assert derive_device_groups(document={"pci_requests": {"requests": [port]}}) == {}


def test_invalid_pci_alias_fails_only_requests_that_name_it():
    settings = build_settings(pci__alias=["{", '{"name": "nic", "vendor_id": "x"}'])
    assert list(read_pci_aliases(settings)) == ["{", "nic"]


@pytest.mark.parametrize(
    ("requests", "error", "expected"),
    [
        (
            [GPU_REQUEST, GPU_REQUEST],
            Invalid,
            r"duplicate request group 'r-0'.*pci_requests.requests\[1\]",
        ),
        ([GPU_REQUEST | {"request_id": "not a suffix"}], Invalid, r"pci_requests.requests\[0\]"),
        ([GPU_REQUEST | {"spec": [{}]}], Invalid, r"pci_requests.requests\[0\]"),
        (
            [GPU_REQUEST | {"spec": [GPU_ALIAS, GPU_ALIAS]}],
            Invalid,
            r"not 2 \(at .*pci_requests.requests\[0\].spec",
        ),
        (
            [GPU_REQUEST | {"count": 2_000_000_000}],
            TooComplex,
            "2000000000 PCI devices, each a request",
        ),
    ],
    ids=["duplicate id", "invalid suffix", "no device", "several specs", "too many"],
)
def test_error_for_an_invalid_pci_request_has_its_place(requests, error, expected):
    with pytest.raises(error, match=expected):
        derive_device_groups(document={"pci_requests": {"requests": requests}})


def test_error_for_an_unknown_resource_class_names_the_pci_alias():
    spec = derive_defaults(build_spec({"pci_passthrough:alias": "gpu:1"}), build_alias_settings())
    unknown = UnknownResourceClassOrTrait("", kind="resource class", names=["CUSTOM_PCI_10DE_1DB4"])
    assert find_unknown_names(spec, unknown).detail == (
        "No such resource class: CUSTOM_PCI_10DE_1DB4 "
        "(flavor extra spec 'pci_passthrough:alias', [pci] alias 'gpu')"
    )


UUID_PREFIX = "aaaaaaaa-0000-4000-8000-00000000000"
(
    NETWORK_ID,
    FLAT_NETWORK_ID,
    PORT_ID,
    PORT_2_ID,
    SUBNET_ID,
    SUBNET_2_ID,
    SEGMENT_ID,
    SEGMENT_2_ID,
) = (f"{UUID_PREFIX}{number}" for number in range(1, 9))
ROUTED_NETWORK_OPTIONS = {"scheduler__query_placement_for_routed_network_aggregates": True}
NEUTRON_EXTENSIONS_PATH = "/extensions"
NEUTRON_SUBNETS_PATH = f"/subnets?network_id={NETWORK_ID}"
NEUTRON_PORT_PATH, NEUTRON_SUBNET_PATH, SUBNET_2_PATH = (
    f"/ports/{PORT_ID}",
    f"/subnets/{SUBNET_ID}",
    f"/subnets/{SUBNET_2_ID}",
)
BOTH_SEGMENTS, ONLY_SEGMENT_2 = (SEGMENT_ID, SEGMENT_2_ID), (SEGMENT_2_ID,)
PORT_WITH_VNIC_TYPE = {"port_id": PORT_ID, "vnic_type": "x"}


@pytest.fixture
def fake_neutron():
    """A routed network of two segments, a port on a segment, and a port without a segment."""
    with run_neutron() as neutron:
        neutron.add_subnet(SUBNET_ID, NETWORK_ID, SEGMENT_ID)
        neutron.add_subnet(SUBNET_2_ID, NETWORK_ID, SEGMENT_2_ID)
        neutron.add_port(PORT_ID, NETWORK_ID, SUBNET_2_ID, **{"binding:vnic_type": "direct"})
        neutron.add_port(PORT_2_ID, NETWORK_ID)
        yield neutron


def read_networks(url, *networks, hints=None, **options):
    settings = build_settings(**options)
    spec = build_spec(requested_networks=list(networks), scheduler_hints=hints or {})
    return with_network_data(spec, build_neutron_client(url), settings).requested_networks


def read_vnic_types_and_segments(*arguments, **options):
    return [(entry.vnic_type, entry.segments) for entry in read_networks(*arguments, **options)]


@pytest.mark.parametrize(
    ("network", "expected", "paths"),
    [
        (
            {"network_id": NETWORK_ID},
            (None, BOTH_SEGMENTS),
            [NEUTRON_EXTENSIONS_PATH, NEUTRON_SUBNETS_PATH],
        ),
        (
            {"network_id": FLAT_NETWORK_ID},
            (None, ()),
            [NEUTRON_EXTENSIONS_PATH, f"/subnets?network_id={FLAT_NETWORK_ID}"],
        ),
        (
            {"port_id": PORT_ID},
            ("direct", ONLY_SEGMENT_2),
            [NEUTRON_PORT_PATH, NEUTRON_EXTENSIONS_PATH, SUBNET_2_PATH],
        ),
        (
            {"port_id": PORT_2_ID},
            ("normal", BOTH_SEGMENTS),
            [f"/ports/{PORT_2_ID}", NEUTRON_EXTENSIONS_PATH, NEUTRON_SUBNETS_PATH],
        ),
        (
            {"port_id": PORT_ID, "network_id": FLAT_NETWORK_ID},
            ("direct", ONLY_SEGMENT_2),
            [NEUTRON_PORT_PATH, NEUTRON_EXTENSIONS_PATH, SUBNET_2_PATH],
        ),
        (
            {"port_id": PORT_ID, "segments": [SEGMENT_ID]},
            ("direct", (SEGMENT_ID,)),
            [NEUTRON_PORT_PATH],
        ),
        (PORT_WITH_VNIC_TYPE | {"segments": []}, ("x", ()), []),
        (
            PORT_WITH_VNIC_TYPE | {"fixed_ips": [{"subnet_id": SUBNET_ID}]},
            ("x", (SEGMENT_ID,)),
            [NEUTRON_EXTENSIONS_PATH, NEUTRON_SUBNET_PATH],
        ),
        (
            PORT_WITH_VNIC_TYPE | {"fixed_ips": [], "network_id": NETWORK_ID},
            ("x", BOTH_SEGMENTS),
            [NEUTRON_EXTENSIONS_PATH, NEUTRON_SUBNETS_PATH],
        ),
        (
            PORT_WITH_VNIC_TYPE | {"fixed_ips": []},
            ("x", BOTH_SEGMENTS),
            [NEUTRON_PORT_PATH, NEUTRON_EXTENSIONS_PATH, NEUTRON_SUBNETS_PATH],
        ),
        ({"network_id": NETWORK_ID, "segments": [SEGMENT_2_ID]}, (None, ONLY_SEGMENT_2), []),
        *((network, (None, None), []) for network in ({"network_id": "auto"}, {})),
    ],
    ids=str,
)
def test_missing_network_data_are_read_from_neutron(fake_neutron, network, expected, paths):
    assert read_vnic_types_and_segments(fake_neutron.url, network, **ROUTED_NETWORK_OPTIONS) == [
        expected
    ]
    assert fake_neutron.seen == paths


@pytest.mark.parametrize(
    ("network", "paths"),
    [
        ({"network_id": NETWORK_ID}, []),
        ({"port_id": PORT_ID}, [f"/ports/{PORT_ID}"]),
        ({"port_id": PORT_ID, "binding:vnic_type": "normal"}, []),
        ({"port_id": PORT_ID, "binding:vnic_type": None}, [f"/ports/{PORT_ID}"]),
    ],
)
def test_segments_are_read_from_neutron_only_for_the_routed_networks_filter(
    fake_neutron, network, paths
):
    ((_, segments),) = read_vnic_types_and_segments(fake_neutron.url, network)
    assert (segments, fake_neutron.seen) == (None, paths)


def test_neutron_objects_are_read_once_and_none_for_a_rebuild(fake_neutron):
    networks = [
        {"port_id": PORT_ID},
        {"network_id": NETWORK_ID},
        {"port_id": PORT_2_ID},
        {"port_id": PORT_ID},
    ]
    assert read_vnic_types_and_segments(fake_neutron.url, *networks, **ROUTED_NETWORK_OPTIONS) == [
        ("direct", (SEGMENT_2_ID,)),
        (None, (SEGMENT_ID, SEGMENT_2_ID)),
        ("normal", (SEGMENT_ID, SEGMENT_2_ID)),
        ("direct", (SEGMENT_2_ID,)),
    ]
    assert sorted(fake_neutron.seen) == sorted(set(fake_neutron.seen))
    fake_neutron.seen.clear()
    rebuild = {"_nova_check_type": ["rebuild"]}
    assert read_vnic_types_and_segments(
        fake_neutron.url, {"port_id": PORT_ID}, hints=rebuild, **ROUTED_NETWORK_OPTIONS
    )
    assert fake_neutron.seen == []


def test_request_without_neutron_does_not_change():
    settings = build_settings(**ROUTED_NETWORK_OPTIONS)
    spec = build_spec(
        requested_networks=[{"port_id": PORT_ID}, {"network_id": NETWORK_ID, "segments": []}]
    )
    assert create_neutron_client(settings) is None
    assert with_network_data(spec, None, settings) is spec


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (
            {"port_id": SUBNET_ID},
            f"neutron has no port {SUBNET_ID} (at $.request_spec.requested_networks[1].port_id)",
        ),
        (
            {"fixed_ips": [{"subnet_id": PORT_ID}]},
            f"neutron has no subnet {PORT_ID} (at $.request_spec.requested_networks[1])",
        ),
    ],
)
def test_unknown_port_or_subnet_is_an_error_of_the_request(fake_neutron, network, words):
    with pytest.raises(Invalid) as error:
        read_networks(
            fake_neutron.url, {"network_id": NETWORK_ID}, network, **ROUTED_NETWORK_OPTIONS
        )
    assert error.value.detail == words


def test_unavailable_neutron_raises_an_error_with_its_url():
    with pytest.raises(ServiceFailed, match=f"{UNREACHABLE_URL} does not answer"):
        read_networks(UNREACHABLE_URL, {"port_id": PORT_ID})


AGGREGATE_1, AGGREGATE_2 = (
    "cccccccc-0000-4000-8000-000000000001",
    "cccccccc-0000-4000-8000-000000000002",
)
ROUTED_NETWORK_OPTION = "scheduler.query_placement_for_routed_network_aggregates"


@pytest.fixture
def make_cloud(database_url, make_app, tmp_path):
    """Return a function that creates a cloud with a neutron: cn1 in rack 1, cn2 in rack 2."""

    def build_cloud(neutron: str | None, *lines: str):
        file = tmp_path / "a.conf"
        request = f"[neutron]\nendpoint_override = {neutron}\nhttp_retries = 0\n" if neutron else ""
        options = "\n".join(
            ["[scheduler]", f"{ROUTED_NETWORK_OPTION.partition('.')[2]} = true", *lines]
        )
        file.write_text(f"[placement_database]\nconnection = {database_url}\n{request}{options}\n")
        app = make_app(Settings.from_conf(read_files(make_full_conf(), [str(file)])))
        app.post_json(
            "/scheduler/v1/compute_nodes", [make_report(name) for name in ("cn1", "cn2", "cn3")]
        )
        for segment in (SEGMENT_ID, SEGMENT_2_ID):
            add_provider(app, f"segment {segment}", segment)
        for aggregate, *providers in (
            (AGGREGATE_1, uuid_of("cn1"), SEGMENT_ID),
            (AGGREGATE_2, uuid_of("cn2")),
        ):
            for provider in providers:
                set_aggregates(app, provider, aggregate)
        set_aggregates(app, SEGMENT_2_ID, AGGREGATE_2)
        return app

    return build_cloud


def set_aggregates(app, provider, *aggregates):
    change_provider(app, provider, "aggregates", list(aggregates))


@pytest.fixture
def cloud(make_cloud, fake_neutron):
    return make_cloud(fake_neutron.url)


def explain_scheduling(app, *networks, overrides=None, status=200, **changes):
    body = {"request_spec": make_spec(make_uuid(1), requested_networks=list(networks), **changes)}
    if overrides is not None:
        body["overrides"] = overrides
    return app.post_json("/scheduler/v1/explain", body, status=status).json


def select_host(app, *networks, status=200, number=1):
    body = {"request_spec": make_spec(make_uuid(number), requested_networks=list(networks))}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def list_passing_hosts(explanation):
    return sorted(host["host"] for host in explanation["hosts"])


def find_filter_report(explanation, name):
    (result,) = (
        request_filter
        for request_filter in explanation["funnel"]["request_filters"]
        if request_filter["name"] == name
    )
    return result


@pytest.mark.parametrize(
    ("networks", "reached", "member_of"),
    [
        ([{"network_id": NETWORK_ID}], ["cn1", "cn2"], [f"in:{AGGREGATE_1},{AGGREGATE_2}"]),
        ([{"port_id": PORT_ID}], ["cn2"], [AGGREGATE_2]),
        ([{"network_id": FLAT_NETWORK_ID}], ["cn1", "cn2", "cn3"], []),
    ],
    ids=["network", "port", "flat network"],
)
def test_candidate_hosts_are_in_the_aggregates_of_the_segments(cloud, networks, reached, member_of):
    result = explain_scheduling(cloud, *networks)
    assert list_passing_hosts(result) == reached
    query = parse_qs(result["funnel"]["allocation_candidates"]["query"])
    request = [item.removeprefix("in:") for item in query.get("member_of", [])]
    assert sorted(request) == sorted(entry.removeprefix("in:") for entry in member_of)
    assert bool(find_filter_report(result, "routed_networks_filter")["applied"]) == bool(member_of)


def test_repeated_selection_has_the_same_result_while_neutron_fails(cloud, fake_neutron):
    first = select_host(cloud, {"port_id": PORT_ID})
    assert first["selections"][0][0]["service_host"] == "cn2"
    fake_neutron.failure = ("500 Internal Server Error", b"")
    fake_neutron.seen.clear()
    assert select_host(cloud, {"port_id": PORT_ID}) == first
    result = explain_scheduling(
        cloud, {"network_id": NETWORK_ID}, overrides={ROUTED_NETWORK_OPTION: False}
    )
    assert list_passing_hosts(result) == ["cn1", "cn2", "cn3"]
    assert fake_neutron.seen == []


def test_unavailable_neutron_is_503(make_cloud):
    cloud = make_cloud(UNREACHABLE_URL)
    for ask in (explain_scheduling, select_host):
        (error,) = ask(cloud, {"port_id": PORT_ID}, status=503)["errors"]
        assert error["detail"] == f"{UNREACHABLE_URL} does not answer: Connection refused"
        assert error["code"] == "scheduler.unavailable"


def test_no_database_connection_is_used_during_requests_to_neutron(cloud, fake_neutron):
    database = cloud.app.services.database
    pools = (database.reader.pool, database.writer.pool)
    connections = []
    fake_neutron.watch = lambda: connections.extend(pool.checkedout() for pool in pools)
    explain_scheduling(cloud, {"port_id": PORT_ID}, {"network_id": NETWORK_ID})
    select_host(cloud, {"port_id": PORT_ID}, {"network_id": NETWORK_ID})
    assert len(connections) >= 12
    assert not any(connections)
