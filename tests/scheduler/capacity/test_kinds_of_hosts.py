# SPDX-License-Identifier: Apache-2.0
"""Capacity is what is placed also with several nodes of a host, in cells, and with hardware."""

from collections import Counter

import pytest

from placement_sched.scheduler.capacity import report as report_module
from placement_sched.scheduler.capacity.count import Deadline, count_capacity
from tests.conftest import make_settings
from tests.scheduler.capacity.placed import asked, placed, told
from tests.scheduler.capacity.test_capacity_is_placing import DEVICE, GPU, PROVIDERS
from tests.scheduler.capacity.test_report import NODES, in_zone, store_flavor
from tests.scheduler.test_server_groups import make
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.versions import LATEST_HEADERS

DEDICATED = {"flavor": flavor(vcpus=2, extra_specs={"hw:cpu_policy": "dedicated"})}
CELLS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def hosts_by(answer):
    return {(one["reason"], one.get("detail", "")): one["hosts"] for one in answer["limited_by"]}


def nodes(app, url, stock):
    """Give the inventories of a provider."""
    found = app.get(f"{url}/inventories", headers=LATEST_HEADERS).json
    app.put_json(f"{url}/inventories", {**found, "inventories": stock}, headers=LATEST_HEADERS)


@pytest.mark.parametrize("policy", [None, "anti-affinity"])
def test_each_node_of_a_host_counts_and_a_group_sees_the_host(sqlite_app, policy):
    """As of ironic: three nodes under one nova-compute, each with room for one instance."""
    fields = {}
    for number in range(3):
        uuid = instance(50 + number)
        node = report("ironic", uuid=uuid, hypervisor_hostname=f"node{number}", memory_mb=1024)
        sqlite_app.post_json(NODES, [node])
    sqlite_app.post_json(NODES, [report("cn1", memory_mb=1024)])
    if policy:
        fields["instance_group"] = make(sqlite_app, policy=policy)
    answer = asked(sqlite_app, question={"per": "host"}, **fields)
    expected = {"cn1": 1, "ironic": 1 if policy else 3}
    assert {one["name"]: one["capacity"] for one in answer["per"]} == expected
    assert answer["exact"] is True
    assert sum(hosts_by(answer).values()) == 4
    assert Counter(placed(sqlite_app, **fields)) == expected


def test_cells_are_shown_apart_and_one_that_is_disabled_takes_nothing(sqlite_url, make_app):
    app = make_app(make_settings(sqlite_url, scheduler__disabled_cells=[CELLS[1]]))
    hosts = [
        report("cn1", cell_uuid=CELLS[0], memory_mb=4096),
        report("cn2", cell_uuid=CELLS[1]),
        report("cn3", cell_uuid=CELLS[0], memory_mb=512),
        report("cn4", memory_mb=2048),
    ]
    app.post_json(NODES, hosts)
    answer = asked(app, question={"per": "cell"})
    assert {one["name"]: one["capacity"] for one in answer["per"]} == {
        "": 2,
        CELLS[0]: 4,
        CELLS[1]: 0,
    }
    assert hosts_by(answer) == {("MEMORY_MB", ""): 3, ("enabled_cells", ""): 1}
    assert Counter(placed(app)) == {"cn1": 4, "cn4": 2}


@pytest.mark.parametrize("falls_back", [True, False])
def test_hosts_that_offer_pinned_cpus_as_vcpu_count_once(sqlite_url, make_app, falls_back):
    """Cn1 has PCPU and VCPU, cn2 VCPU alone, cn3 PCPU alone."""
    options = {"workarounds__disable_fallback_pcpu_query": not falls_back}
    settings = make_settings(
        sqlite_url, filter_scheduler__enabled_filters=["ComputeFilter"], **options
    )
    app = make_app(settings)
    app.post_json(NODES, [report(name) for name in ("cn1", "cn2", "cn3")])
    more = {"MEMORY_MB": {"total": 65536}, "DISK_GB": {"total": 1000}}
    stocks = {
        "cn1": {"VCPU": {"total": 4}, "PCPU": {"total": 6}},
        "cn2": {"VCPU": {"total": 8}},
        "cn3": {"PCPU": {"total": 3}},
    }
    for name, stock in stocks.items():
        nodes(app, f"{PROVIDERS}/{report(name)['uuid']}", {**stock, **more})
    answer = asked(app, question={"per": "host"}, **DEDICATED)
    expected = {"cn1": 3 + 2, "cn2": 4, "cn3": 1} if falls_back else {"cn1": 3, "cn2": 0, "cn3": 1}
    assert {one["name"]: one["capacity"] for one in answer["per"]} == expected
    assert answer["exact"] is True
    assert sum(hosts_by(answer).values()) == 3
    assert Counter(placed(app, **DEDICATED)) == +Counter(expected)


def test_devices_in_placement_are_counted_by_their_providers(sqlite_url, make_app):
    """Cn1 has two NICs with three and one device, cn2 none."""
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
    app.put("/placement/resource_classes/CUSTOM_PCI_10DE_1DB4", headers=LATEST_HEADERS)
    for number, total in enumerate(totals):
        uuid = instance(900 + number)
        body = {"name": uuid, "uuid": uuid, "parent_provider_uuid": report("cn1")["uuid"]}
        app.post_json(PROVIDERS, body, headers=LATEST_HEADERS)
        nodes(app, f"{PROVIDERS}/{uuid}", {"CUSTOM_PCI_10DE_1DB4": {"total": total}})
    wanted = {"flavor": flavor(extra_specs={"pci_passthrough:alias": "gpu:1"})}
    answer = asked(app, **wanted)
    assert (answer["capacity"], answer["exact"]) == (4, True)
    assert sum(hosts_by(answer).values()) == 2


@pytest.mark.parametrize("driver", ["caching_scheduler", "chance_scheduler"])
@pytest.mark.parametrize("policy", [None, "anti-affinity"])
def test_other_drivers_are_counted_as_they_place(sqlite_url, make_app, driver, policy):
    """Chance asks no filter but whether a host is up; a caching one places on what it has read."""
    settings = make_settings(
        sqlite_url,
        scheduler__driver=driver,
        filter_scheduler__enabled_filters=["ComputeFilter", "ServerGroupAntiAffinityFilter"],
    )
    app = make_app(settings)
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    hosts = [report("cn1", memory_mb=2048), report("cn2", memory_mb=3072), report("cn3", **down)]
    app.post_json(NODES, hosts)
    fields = {"instance_group": make(app, policy=policy)} if policy else {}
    answer = asked(app, question={"per": "host"}, **fields)
    apart = policy is not None and driver == "caching_scheduler"
    expected = {"cn1": 1, "cn2": 1} if apart else {"cn1": 2, "cn2": 3}
    assert {one["name"]: one["capacity"] for one in answer["per"]} == {**expected, "cn3": 0}
    assert answer["capacity"] == len(placed(app, **fields))


class Ticking:
    """A timer on which a second passes each time that it is looked at."""

    def __init__(self):
        self.seconds = 0

    def __call__(self):
        self.seconds += 1
        return float(self.seconds)


@pytest.mark.parametrize(("budget", "capacity"), [(3.0, 2 * 2), (6.0, 2 * 5), (0, 2 * 64)])
def test_count_that_takes_longer_than_its_budget_says_that_it_is_a_lower_bound(
    sqlite_url, make_app, budget, capacity
):
    """Instances are placed one round after the other, and the timer is looked at before each."""
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
        done = count_capacity(
            scheduler, connection, request, deadline=Deadline.after(budget, Ticking())
        )
    assert sum(ledger.instances for ledger in done.ledgers) == capacity
    stops = {ledger.stop.reason for ledger in done.ledgers}
    if budget:
        assert stops == {"capacity_budget"}
        (doubt,) = done.doubts
        assert doubt == (
            f"the count ended after [scheduler] capacity_budget ({budget:g} s): the number is a "
            "minimum"
        )
    else:
        assert "capacity_budget" not in stops
        assert list(done.doubts) == []


def test_flavors_of_a_question_share_its_budget(sqlite_url, make_app, monkeypatch):
    """A second passes for each: after four of them time is up."""
    app = make_app(make_settings(sqlite_url, scheduler__capacity_budget=4.0))
    app.post_json(NODES, [report("cn1")])
    monkeypatch.setattr(report_module, "monotonic", Ticking())
    flavors = [flavor(name=f"f{number}", memory_mb=1024 + number) for number in range(6)]
    body = {"request_spec": {}, "flavors": flavors, "per": "zone"}
    found = app.post_json("/scheduler/v1/capacity", body).json["flavors"]
    assert [one["exact"] for one in found] == [True] * 4 + [False] * 2
    assert all(one["capacity"] for one in found[:4])
    for one in found[4:]:
        assert (one["capacity"], one["limited_by"], one["per"]) == (0, [], [])
        assert one["inexact_because"] == [
            "the count ended after [scheduler] capacity_budget (4 s): the number is a minimum"
        ]


def test_answer_of_a_count_that_ran_out_of_time_says_so(sqlite_url, make_app):
    """No clock is so coarse that a count takes less than this budget."""
    settings = make_settings(
        sqlite_url,
        scheduler__capacity_budget=1e-12,
        filter_scheduler__enabled_filters=["NumInstancesFilter"],
    )
    app = make_app(settings)
    app.post_json(NODES, [report("cn1")])
    answer = asked(app)
    assert (answer["capacity"], answer["exact"]) == (0, False)
    assert "capacity_budget" in answer["inexact_because"][0]
    assert hosts_by(answer) == {("capacity_budget", ""): 1}


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"flavor": "smal"}, 404, "did you mean 'small'?"),
        ({"flavor": "small", "availability_zone": "az11"}, 400, "did you mean 'az1'?"),
    ],
)
def test_names_that_are_not_there_are_answered_with_the_nearest(sqlite_app, changes, status, words):
    sqlite_app.post_json(NODES, [report("cn1")])
    in_zone(sqlite_app, "az1", "cn1")
    store_flavor(sqlite_app, "small")
    assert words in told(asked(sqlite_app, status=status, **changes))
    body = {"request_spec": {"flavor": "small"}, "changes": [{"drain": ["cn11"]}]}
    answer = sqlite_app.post_json("/scheduler/v1/capacity", body, status="*")
    assert answer.status_int in {400, 404}
    assert "did you mean 'cn1'" in told(answer.json)
