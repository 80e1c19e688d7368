# SPDX-License-Identifier: Apache-2.0
"""Capacity of hosts with several nodes, in cells, with devices, and of other drivers."""

from collections import Counter

import pytest

from placement_sched.scheduler.capacity import report as report_module
from placement_sched.scheduler.capacity.count import Deadline, count_capacity
from tests.conftest import make_settings
from tests.scheduler.capacity.placements import place_until_full, read_capacity
from tests.scheduler.capacity.test_capacity_equals_placements import DEVICE, GPU
from tests.scheduler.capacity.test_report import NODES
from tests.scheduler.providers import add_provider, set_totals
from tests.scheduler.test_server_groups import create_group
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report, spec

DEDICATED = {"flavor": flavor(vcpus=2, extra_specs={"hw:cpu_policy": "dedicated"})}
CELLS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def hosts_by_reason(answer):
    return {
        (entry["reason"], entry.get("detail", "")): entry["hosts"] for entry in answer["limited_by"]
    }


@pytest.mark.parametrize("policy", [None, "anti-affinity"])
def test_each_node_of_a_host_counts_but_a_group_counts_hosts(sqlite_app, policy):
    fields = {}
    for number in range(3):
        uuid = instance(50 + number)
        node = report("ironic", uuid=uuid, hypervisor_hostname=f"node{number}", memory_mb=1024)
        sqlite_app.post_json(NODES, [node])
    sqlite_app.post_json(NODES, [report("cn1", memory_mb=1024)])
    if policy:
        fields["instance_group"] = create_group(sqlite_app, policy=policy)
    answer = read_capacity(sqlite_app, query={"per": "host"}, **fields)
    expected = {"cn1": 1, "ironic": 1 if policy else 3}
    assert {entry["name"]: entry["capacity"] for entry in answer["per"]} == expected
    assert answer["exact"] is True
    assert sum(hosts_by_reason(answer).values()) == 4
    assert Counter(place_until_full(sqlite_app, **fields)) == expected


def test_disabled_cell_has_no_capacity(sqlite_url, make_app):
    app = make_app(make_settings(sqlite_url, scheduler__disabled_cells=[CELLS[1]]))
    hosts = [
        report("cn1", cell_uuid=CELLS[0], memory_mb=4096),
        report("cn2", cell_uuid=CELLS[1]),
        report("cn3", cell_uuid=CELLS[0], memory_mb=512),
        report("cn4", memory_mb=2048),
    ]
    app.post_json(NODES, hosts)
    answer = read_capacity(app, query={"per": "cell"})
    assert {entry["name"]: entry["capacity"] for entry in answer["per"]} == {
        "": 2,
        CELLS[0]: 4,
        CELLS[1]: 0,
    }
    assert hosts_by_reason(answer) == {("MEMORY_MB", ""): 3, ("enabled_cells", ""): 1}
    assert Counter(place_until_full(app)) == {"cn1": 4, "cn4": 2}


@pytest.mark.parametrize("falls_back", [True, False])
def test_hosts_with_pcpu_and_vcpu_count_once(sqlite_url, make_app, falls_back):
    options = {"workarounds__disable_fallback_pcpu_query": not falls_back}
    settings = make_settings(
        sqlite_url, filter_scheduler__enabled_filters=["ComputeFilter"], **options
    )
    app = make_app(settings)
    app.post_json(NODES, [report(name) for name in ("cn1", "cn2", "cn3")])
    more = {"MEMORY_MB": 65536, "DISK_GB": 1000}
    stocks = {"cn1": {"VCPU": 4, "PCPU": 6}, "cn2": {"VCPU": 8}, "cn3": {"PCPU": 3}}
    for name, totals in stocks.items():
        set_totals(app, uuid_of(name), {**totals, **more})
    answer = read_capacity(app, query={"per": "host"}, **DEDICATED)
    expected = {"cn1": 3 + 2, "cn2": 4, "cn3": 1} if falls_back else {"cn1": 3, "cn2": 0, "cn3": 1}
    assert {entry["name"]: entry["capacity"] for entry in answer["per"]} == expected
    assert answer["exact"] is True
    assert sum(hosts_by_reason(answer).values()) == 3
    assert Counter(place_until_full(app, **DEDICATED)) == +Counter(expected)


def test_devices_in_placement_are_counted_by_their_providers(sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        pci__alias=[GPU],
        filter_scheduler__pci_in_placement=True,
        filter_scheduler__enabled_filters=["ComputeFilter", "PciPassthroughFilter"],
    )
    app = make_app(settings)
    totals = [3, 1]
    pools = [
        {**DEVICE, "count": total, "rp_uuid": instance(900 + number)}
        for number, total in enumerate(totals)
    ]
    app.post_json(NODES, [report("cn1", pci_device_pools=pools), report("cn2")])
    for number, total in enumerate(totals):
        uuid = instance(900 + number)
        add_provider(app, uuid, uuid, parent=uuid_of("cn1"), CUSTOM_PCI_10DE_1DB4=total)
    request = {"flavor": flavor(extra_specs={"pci_passthrough:alias": "gpu:1"})}
    answer = read_capacity(app, **request)
    assert (answer["capacity"], answer["exact"]) == (4, True)
    assert sum(hosts_by_reason(answer).values()) == 2


@pytest.mark.parametrize("driver", ["caching_scheduler", "chance_scheduler"])
@pytest.mark.parametrize("policy", [None, "anti-affinity"])
def test_capacity_equals_placements_of_chance_and_caching_scheduler(
    sqlite_url, make_app, driver, policy
):
    settings = make_settings(
        sqlite_url,
        scheduler__driver=driver,
        filter_scheduler__enabled_filters=["ComputeFilter", "ServerGroupAntiAffinityFilter"],
    )
    app = make_app(settings)
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    hosts = [report("cn1", memory_mb=2048), report("cn2", memory_mb=3072), report("cn3", **down)]
    app.post_json(NODES, hosts)
    fields = {"instance_group": create_group(app, policy=policy)} if policy else {}
    answer = read_capacity(app, query={"per": "host"}, **fields)
    has_anti_affinity = policy is not None and driver == "caching_scheduler"
    expected = {"cn1": 1, "cn2": 1} if has_anti_affinity else {"cn1": 2, "cn2": 3}
    assert {entry["name"]: entry["capacity"] for entry in answer["per"]} == {**expected, "cn3": 0}
    assert answer["capacity"] == len(place_until_full(app, **fields))


class TickingTimer:
    """A timer that advances by a second at each reading."""

    def __init__(self):
        self.seconds = 0

    def __call__(self):
        self.seconds += 1
        return float(self.seconds)


@pytest.mark.parametrize(("budget", "capacity"), [(3.0, 2 * 2), (6.0, 2 * 5), (0, 2 * 64)])
def test_count_over_its_budget_is_a_minimum(sqlite_url, make_app, budget, capacity):
    settings = make_settings(
        sqlite_url,
        scheduler__capacity_budget=budget,
        filter_scheduler__enabled_filters=["NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=64,
    )
    app = make_app(settings)
    app.post_json(NODES, [report("cn1", memory_mb=64 * 1024), report("cn2")])
    scheduler = app.app.services.scheduler
    request = scheduler.reader.validate(scheduler.reader.read(spec()))
    with app.app.services.database.read() as connection:
        result = count_capacity(
            scheduler, connection, request, deadline=Deadline.after(budget, TickingTimer())
        )
    assert sum(counter.instances for counter in result.counters) == capacity
    stops = {counter.stop.reason for counter in result.counters}
    if budget:
        assert stops == {"capacity_budget"}
        (doubt,) = result.doubts
        assert doubt == (
            f"the count ended after [scheduler] capacity_budget ({budget:g} s): the number is a "
            "minimum"
        )
    else:
        assert "capacity_budget" not in stops
        assert list(result.doubts) == []


def test_flavors_of_a_query_share_its_budget(sqlite_url, make_app, monkeypatch):
    app = make_app(make_settings(sqlite_url, scheduler__capacity_budget=4.0))
    app.post_json(NODES, [report("cn1")])
    monkeypatch.setattr(report_module, "monotonic", TickingTimer())
    flavors = [flavor(name=f"f{number}", memory_mb=1024 + number) for number in range(6)]
    body = {"request_spec": {}, "flavors": flavors, "per": "zone"}
    reports = app.post_json("/scheduler/v1/capacity", body).json["flavors"]
    assert [entry["exact"] for entry in reports] == [True] * 4 + [False] * 2
    assert all(entry["capacity"] for entry in reports[:4])
    for entry in reports[4:]:
        assert (entry["capacity"], entry["limited_by"], entry["per"]) == (0, [], [])
        assert entry["inexact_because"] == [
            "the count ended after [scheduler] capacity_budget (4 s): the number is a minimum"
        ]
