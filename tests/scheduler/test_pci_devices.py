# SPDX-License-Identifier: Apache-2.0
"""PCI devices that the instances of a request use."""

import pytest

from placement_sched.app import create_app
from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.host_state import with_device_providers
from tests.conftest import AdminClient, make_settings
from tests.scheduler.providers import add_provider
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.states import build_host_state, build_spec
from tests.support.versions import LATEST_HEADERS

SELECT_PATH = "/scheduler/v1/select_destinations"
EXPLAIN_PATH = "/scheduler/v1/explain"
NIC_ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1520", "device_type": "type-VF"}'


def build_nic_pool(count=1, **more):
    ids = {"vendor_id": "8086", "product_id": "1520", "numa_node": 0, "dev_type": "type-VF"}
    return {**ids, "count": count, **more}


def build_request_for_devices(count=1, **fields):
    request = {"count": count, "alias_name": "nic", "request_id": "r", "spec": [{}], **fields}
    return build_spec(pci_requests={"requests": [request]})


def count_devices_by_provider(state):
    return {entry.get("rp_uuid"): entry["count"] for entry in state.pci_stats.pools}


@pytest.mark.parametrize(
    ("providers", "count", "expected"), [(["b", "a"], 1, {"a": 2, "b": 1}), ([], 3, {"b": 1})]
)
def test_pci_devices_are_taken_from_the_first_candidate_or_any_pool(providers, count, expected):
    state = build_host_state(
        pci_stats=PciPools.from_report(
            [build_nic_pool(2, rp_uuid="a"), build_nic_pool(2, rp_uuid="b")]
        )
    )
    state.allocation_candidates = [{"mappings": {"r-0": [uuid]}} for uuid in providers]
    state.consume_from_request(build_request_for_devices(count))
    assert count_devices_by_provider(state) == expected


@pytest.mark.parametrize(
    "request_spec", [build_spec(), build_spec(pci_requests=None), build_request_for_devices(1)]
)
def test_host_without_pci_pools_accepts_an_instance(request_spec):
    state = build_host_state()
    state.consume_from_request(request_spec)
    assert (state.pci_stats, state.num_instances) == (None, 1)


def test_too_few_pci_devices_are_logged_and_the_instance_is_still_added_to_the_host(caplog):
    state = build_host_state("cn7", pci_stats=PciPools.from_report([build_nic_pool(1)]))
    state.consume_from_request(build_request_for_devices(2))
    assert (state.pci_stats.free, state.num_instances) == (1, 1)
    warning = "Host cn7 has too few PCI devices: 2 devices for PCI alias nic requested"
    assert warning in caplog.text


def test_pci_request_has_the_resource_providers_of_its_devices():
    mappings = {"": ["root"], "r-0": ["b"], "r-1": ["a"], "r-2": ["b"]}
    spec = with_device_providers(
        build_request_for_devices(3), AllocationRequest.from_json({"mappings": mappings})
    )
    requests = spec.pci_requests.requests
    assert [request.spec for request in requests] == [({"rp_uuids": "b,b,a"},)]
    state = build_host_state(
        pci_stats=PciPools.from_report(
            [build_nic_pool(2, rp_uuid="a"), build_nic_pool(3, rp_uuid="b")]
        )
    )
    state.consume_from_request(spec)
    assert count_devices_by_provider(state) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("request_spec", "mappings"),
    [
        (build_request_for_devices(), None),
        (build_request_for_devices(), {"": ["root"]}),
        (build_request_for_devices(alias_name=None), {"r-0": ["a"]}),
        (build_spec(), {"r-0": ["a"]}),
    ],
    ids=["no candidate", "device outside placement", "device of a port", "no device"],
)
def test_request_without_pci_devices_in_placement_does_not_change(request_spec, mappings):
    request = None if mappings is None else AllocationRequest.from_json({"mappings": mappings})
    assert with_device_providers(request_spec, request) == request_spec


@pytest.fixture
def make_cloud(database_url):
    """Make an application of cn1 with two NICs, each a provider with its VFs, and of cn2."""
    result = []

    def build_cloud(*vfs, totals=(2, 2), **options):
        settings = make_settings(
            database_url,
            pci__alias=[NIC_ALIAS],
            filter_scheduler__pci_in_placement=True,
            filter_scheduler__enabled_filters=["PciPassthroughFilter"],
            **options,
        )
        result.append(create_app(settings))
        app = AdminClient(result[-1])
        # Pools in reverse order: the choice of a NIC must not depend on it.
        pools = [build_nic_pool(count, rp_uuid=make_uuid(900 + n)) for n, count in enumerate(vfs)][
            ::-1
        ]
        hosts = [make_report("cn1", pci_device_pools=pools), make_report("cn2")]
        app.post_json("/scheduler/v1/compute_nodes", hosts)
        app.put("/placement/resource_classes/CUSTOM_PCI_8086_1520", headers=LATEST_HEADERS)
        for number, total in enumerate(totals):
            add_nic(app, number, total)
        return app

    yield build_cloud
    for application in result:
        application.close()


def add_nic(app, number, total):
    """Add the provider of a NIC with VFs, which the host need not have reported."""
    uuid = make_uuid(900 + number)
    add_provider(app, f"nic{number}", uuid, parent=uuid_of("cn1"), CUSTOM_PCI_8086_1520=total)


def request_devices(app, *instances, path=SELECT_PATH, count=1, status=200):
    request = make_spec(
        *instances, flavor=make_flavor(extra_specs={"pci_passthrough:alias": f"nic:{count}"})
    )
    return app.post_json(path, {"request_spec": request}, status=status).json


def list_serving_nics(selected):
    """Return the number of the NIC that serves each instance."""
    result = []
    for selections in selected["selections"]:
        mappings = selections[0]["allocation_request"]["mappings"]
        result += [uuids[0] for suffix, uuids in mappings.items() if suffix]
    return [int(uuid[-3:], 16) - 900 for uuid in result]


@pytest.mark.parametrize(
    ("free", "instances", "expected"), [((0, 1), 1, [1]), ((1, 2), 3, [0, 1, 1]), ((1, 1), 3, None)]
)
def test_instances_have_pci_devices_that_the_host_reported(make_cloud, free, instances, expected):
    app = make_cloud(*free)
    uuids = map(make_uuid, range(1, instances + 1))
    result = request_devices(app, *uuids, status=200 if expected else 409)
    if expected:
        assert get_selected_hosts(result) == ["cn1"] * instances
        assert sorted(list_serving_nics(result)) == expected
    else:
        assert result["errors"][0]["code"] == "scheduler.no_valid_host"


@pytest.mark.parametrize(("vfs", "totals"), [((2, 1), (1, 2)), ((1, 2), (2, 1))])
def test_instances_fit_although_placement_and_reported_device_counts_differ(
    make_cloud, vfs, totals
):
    # The first NIC reports a VF more than placement has, and the second a VF less.
    app = make_cloud(*vfs, totals=totals)
    assert request_devices(app, *map(make_uuid, (1, 2)), path=EXPLAIN_PATH)["outcome"] == "selected"
    outcome = request_devices(app, *map(make_uuid, (1, 2, 3)), path=EXPLAIN_PATH)["outcome"]
    assert outcome == "no_valid_host"


def test_pci_devices_of_earlier_requests_are_not_free_while_reports_are_cached(make_cloud):
    app = make_cloud(1, 1, scheduler__driver="caching_scheduler")
    results = [request_devices(app, make_uuid(number)) for number in (1, 2)]
    assert sorted(list_serving_nics(results[0]) + list_serving_nics(results[1])) == [0, 1]
    request_devices(app, make_uuid(3), status=409)
