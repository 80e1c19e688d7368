# SPDX-License-Identifier: Apache-2.0
"""Devices that instances of a request take: of their own host state, and of the right provider."""

import pytest

from placement_sched.app import create_app
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.host_state import (
    make_host_state,
    take_devices,
    with_device_providers,
)
from placement_sched.schemas.node_report import Defaults, parse
from tests.conftest import Client, make_settings
from tests.support.reports import NOW, a_report
from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.states import a_host, a_spec
from tests.support.versions import LATEST_HEADERS

SELECT = "/scheduler/v1/select_destinations"
EXPLAIN = "/scheduler/v1/explain"
ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1520", "device_type": "type-VF"}'


def pool(count=1, **more):
    ids = {"vendor_id": "8086", "product_id": "1520", "numa_node": 0, "dev_type": "type-VF"}
    return {**ids, "count": count, **more}


def wanting(count=1, **fields):
    request = {"count": count, "alias_name": "nic", "request_id": "r", "spec": [{}], **fields}
    return a_spec(pci_requests={"requests": [request]})


def counts(state):
    return {one.get("rp_uuid"): one["count"] for one in state.pci_stats.pools}


def test_states_of_one_report_take_devices_of_their_own():
    node = parse(a_report(pci_device_pools=[pool(3)]), Defaults(now=NOW)).node
    one, other = make_host_state(node), make_host_state(node)
    one.consume_from_request(wanting(2))
    assert (one.pci_stats.free, other.pci_stats.free, make_host_state(node).pci_stats.free) == (
        1,
        3,
        3,
    )
    assert node.reported_pools is node.reported_pools
    assert node.pci_device_pools[0]["count"] == 3


def test_devices_are_taken_of_the_first_candidate():
    state = a_host(pci_stats=PciPools.of([pool(2, rp_uuid="a"), pool(2, rp_uuid="b")]))
    state.allocation_candidates = [{"mappings": {"r-0": [uuid]}} for uuid in ("b", "a")]
    state.consume_from_request(wanting())
    assert counts(state) == {"a": 2, "b": 1}


def test_devices_are_taken_of_any_pool_where_no_candidate_names_providers():
    state = a_host(pci_stats=PciPools.of([pool(2, rp_uuid="a"), pool(2, rp_uuid="b")]))
    state.consume_from_request(wanting(3))
    assert counts(state) == {"b": 1}


@pytest.mark.parametrize("asked", [a_spec(), a_spec(pci_requests=None), wanting(1)])
def test_host_of_which_no_pools_are_known_can_be_chosen(asked):
    state = a_host()
    state.consume_from_request(asked)
    assert (state.pci_stats, state.num_instances) == (None, 1)


def test_too_few_devices_are_logged_and_the_instance_counts(caplog):
    state = a_host("cn7", pci_stats=PciPools.of([pool(1)]))
    state.consume_from_request(wanting(2))
    assert (state.pci_stats.free, state.num_instances) == (1, 1)
    warning = "Host cn7 has too few PCI devices: 2 devices for PCI alias nic requested"
    assert warning in caplog.text


def test_cells_of_the_instance_count_where_they_are_known():
    state = a_host(pci_stats=PciPools.of([pool(1, rp_uuid="a"), pool(1, rp_uuid="b", numa_node=1)]))
    asked = a_spec(numa_topology={"cells": [{"id": 1, "cpuset": [0], "memory": 1}]})
    cells = asked.numa_topology.cells
    take_devices(state, wanting(), cells)
    assert counts(state) == {"a": 1}


def test_providers_of_devices_are_written_into_a_request():
    mappings = {"": ["root"], "r-0": ["b"], "r-1": ["a"], "r-2": ["b"]}
    requests = with_device_providers(wanting(3), {"mappings": mappings}).pci_requests.requests
    assert [one.spec for one in requests] == [({"rp_uuids": "b,b,a"},)]
    state = a_host(pci_stats=PciPools.of([pool(2, rp_uuid="a"), pool(3, rp_uuid="b")]))
    state.consume_from_request(with_device_providers(wanting(3), {"mappings": mappings}))
    assert counts(state) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (wanting(), None),
        (wanting(), {"mappings": {"": ["root"]}}),
        (wanting(alias_name=None), {"mappings": {"r-0": ["a"]}}),
        (a_spec(), {"mappings": {"r-0": ["a"]}}),
    ],
    ids=["nothing claimed", "not in placement", "device of a port", "no device"],
)
def test_request_of_which_placement_knows_no_device_stays_the_same(asked, found):
    assert with_device_providers(asked, found) == asked


@pytest.fixture
def cloud(database_url):
    """Make an application of cn1 with two NICs, each a provider with its VFs, and of cn2."""
    made = []

    def cloud(*vfs, totals=(2, 2), **options):
        settings = make_settings(
            database_url,
            pci__alias=[ALIAS],
            filter_scheduler__pci_in_placement=True,
            filter_scheduler__enabled_filters=["PciPassthroughFilter"],
            **options,
        )
        made.append(create_app(settings))
        app = Client(made[-1])
        # The last NIC first: which is taken is not to hang on the order of pools.
        pools = [pool(count, rp_uuid=instance(900 + n)) for n, count in enumerate(vfs)][::-1]
        hosts = [report("cn1", pci_device_pools=pools), report("cn2")]
        app.post_json("/scheduler/v1/compute_nodes", hosts)
        app.put("/placement/resource_classes/CUSTOM_PCI_8086_1520", headers=LATEST_HEADERS)
        for number, total in enumerate(totals):
            nic(app, number, total)
        return app

    yield cloud
    for application in made:
        application.close()


def nic(app, number, total):
    """Make a NIC's provider with so many VFs, which the host need not have reported."""
    uuid, root = instance(900 + number), report("cn1")["uuid"]
    body = {"name": f"nic{number}", "uuid": uuid, "parent_provider_uuid": root}
    app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    stock = {
        "resource_provider_generation": 0,
        "inventories": {"CUSTOM_PCI_8086_1520": {"total": total}},
    }
    app.put_json(f"/placement/resource_providers/{uuid}/inventories", stock, headers=LATEST_HEADERS)


def ask(app, *instances, path=SELECT, count=1, status=200):
    asked = spec(*instances, flavor=flavor(extra_specs={"pci_passthrough:alias": f"nic:{count}"}))
    return app.post_json(path, {"request_spec": asked}, status=status).json


def providers(answer):
    """Return the number of the NIC that serves each instance."""
    found = []
    for selections in answer["selections"]:
        mappings = selections[0]["allocation_request"]["mappings"]
        found += [uuids[0] for suffix, uuids in mappings.items() if suffix]
    return [int(uuid[-3:], 16) - 900 for uuid in found]


def test_instance_is_given_a_device_that_its_host_has_reported(cloud):
    app = cloud(0, 1)
    answer = ask(app, instance(1))
    assert (hosts_of(answer), providers(answer)) == (["cn1"], [1])


def test_instances_of_one_request_are_given_what_earlier_ones_left(cloud):
    app = cloud(1, 2)
    answer = ask(app, *map(instance, (1, 2, 3)))
    assert (hosts_of(answer), sorted(providers(answer))) == (["cn1"] * 3, [0, 1, 1])


def test_instances_that_placement_had_room_for_are_refused_where_devices_are_lacking(cloud):
    app = cloud(1, 1)
    answer = ask(app, *map(instance, (1, 2, 3)), status=409)
    assert answer["errors"][0]["code"] == "scheduler.no_valid_host"


@pytest.mark.parametrize(("vfs", "totals"), [((2, 1), (1, 2)), ((1, 2), (2, 1))])
def test_candidate_without_room_is_not_taken_because_the_one_with_room_is_dropped(
    cloud, vfs, totals
):
    # One NIC has a VF more than placement knows of, and the other has one less.
    app = cloud(*vfs, totals=totals)
    assert ask(app, *map(instance, (1, 2)), path=EXPLAIN)["outcome"] == "selected"
    assert ask(app, *map(instance, (1, 2, 3)), path=EXPLAIN)["outcome"] == "no_valid_host"


def test_refusal_has_the_numbers(cloud):
    app = cloud(0, 0)
    (report_of_filter,) = ask(app, path=EXPLAIN)["funnel"]["filters"]
    (refused,) = report_of_filter["rejected"]
    assert (report_of_filter["name"], refused["host"]) == ("PciPassthroughFilter", "cn1")
    assert "none of 2 allocation candidates fits" in refused["reason"]
    assert "1 device for PCI alias nic requested; 0 free" in refused["reason"]


def test_device_that_an_earlier_request_was_given_is_gone_while_reports_are_kept(cloud):
    app = cloud(1, 1, scheduler__driver="caching_scheduler")
    answers = [ask(app, instance(number)) for number in (1, 2)]
    assert sorted(providers(answers[0]) + providers(answers[1])) == [0, 1]
    ask(app, instance(3), status=409)
