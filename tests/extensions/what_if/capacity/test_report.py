# SPDX-License-Identifier: Apache-2.0
"""Capacity of flavors, counted per host, zone, aggregate and cell."""

from collections import Counter

import pytest

from placement_sched.extensions.what_if.capacity import report as report_module
from placement_sched.extensions.what_if.capacity.count import Deadline, count_capacity
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.hardware.stranding import FlavorTable
from tests.conftest import make_settings
from tests.extensions.what_if.capacity.placements import (
    GPU_ALIAS,
    GPU_POOL,
    build_limit,
    read_capacity,
)
from tests.scheduler.providers import add_provider, set_inventory_totals
from tests.scheduler.server_groups import create_group
from tests.support.api_clouds import NODES_PATH, SELECT_PATH, store_flavor
from tests.support.api_clouds import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.clouds import uuid_of
from tests.support.placements import fill_cloud
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.statements import record_statements


def test_capacity_equals_the_number_of_placed_instances(cloud):
    result = read_capacity(cloud, num_instances=7)
    assert (result["exact"], result["capacity"]) == (True, 12)
    limits = result["limited_by"]
    assert limits == [build_limit("MEMORY_MB", 2), build_limit("VCPU", 1)]
    # VCPUs at a ratio of 4: 64 - 4 on cn1, none on cn2, and all 64 on cn3.
    expected = {"VCPU": 60 + 64, "MEMORY_MB": 65536 - 8192 + 512, "DISK_GB": 960 + 920 + 1000}
    assert result["stranded"] == expected
    assert Counter(fill_cloud(cloud)) == {"cn1": 4, "cn2": 8}
    assert read_capacity(cloud)["capacity"] == 0


def test_capacity_can_be_listed_per_zone_aggregate_host_or_cell(cloud):
    def read_capacities(kind):
        return {
            entry["name"]: entry["capacity"]
            for entry in read_capacity(cloud, query={"per": kind})["per"]
        }

    assert read_capacities("zone") == {"az1": 4, "az2": 8}
    assert read_capacities("aggregate") == {"agg-az1": 4, "agg-az2": 8}
    assert read_capacities("host") == {"cn1": 4, "cn2": 8, "cn3": 0}
    assert read_capacities("cell") == {"": 12}


def test_hosts_outside_the_zone_are_limited_by_member_of(cloud):
    result = read_capacity(cloud, availability_zone="az1")
    assert result["capacity"] == 4
    limits = [(entry["reason"], entry["hosts"]) for entry in result["limited_by"]]
    assert limits == [("MEMORY_MB", 2), ("member_of", 1)]
    (outside,) = (item for item in result["limited_by"] if item["reason"] == "member_of")
    assert list(outside["names"].values()) == ["agg-az1"]
    assert all(uuid in outside["detail"] for uuid in outside["names"])
    assert all("names" not in entry for entry in result["limited_by"] if entry != outside)
    parts = read_capacity(cloud, query={"per": "zone"}, availability_zone="az1")["per"]
    assert outside in [entry for part in parts for entry in part["limited_by"]]


@pytest.mark.slow
def test_filters_of_a_capacity_count_see_its_earlier_instances(sqlite_url, make_app):
    alone = ["tests.scheduler.test_selection.InstanceRejectingFilter"]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=alone))
    app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2")])
    result = read_capacity(app)
    assert result["capacity"] == len(fill_cloud(app)) == 2
    name = "InstanceRejectingFilter"
    (limit,) = result["limited_by"]
    assert limit == {"reason": name, "kind": "other", "filter": name, "hosts": 2}


def test_hosts_limited_by_a_filter_have_the_values_that_their_rejections_share(
    sqlite_url, make_app
):
    app = make_app(make_settings(sqlite_url))
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    shared = {"reason": "ComputeFilter", "filter": "ComputeFilter", "hosts": 2}
    app.post_json(NODES_PATH, [make_report("cn1") | down, make_report("cn2") | down])
    assert read_capacity(app)["limited_by"] == [shared | {"kind": "down"}]
    app.post_json(NODES_PATH, [make_report("cn2")])
    forced = {"host": "cn2", "binary": "nova-compute", "forced_down": True}
    headers = {"X-OpenStack-Nova-API-Version": "2.11"}
    app.put_json("/compute/v2.1/os-services/force-down", forced, headers=headers)
    assert read_capacity(app)["limited_by"] == [shared | {"kind": "other"}]


def test_capacities_of_flavors_are_in_the_requested_order(cloud):
    store_flavor(cloud, "small")
    store_flavor(cloud, "large", ram=4096)

    def list_capacities_of_flavors(**question):
        request = {"project_id": "p1"}
        body = {"request_spec": request, **question}
        flavors = cloud.post_json("/scheduler/v1/capacity", body).json["flavors"]
        return [(entry["flavor"], entry["capacity"]) for entry in flavors]

    capacities = list_capacities_of_flavors(flavors=["large", "small", make_flavor(name="own")])
    assert capacities == [("large", 9), ("small", 12), ("own", 12)]
    assert sorted(list_capacities_of_flavors(all_flavors=True)) == [("large", 9), ("small", 12)]


BREADTH_FIRST = {"placement__allocation_candidates_generation_strategy": "breadth-first"}


@pytest.mark.parametrize(
    "options", [{}, BREADTH_FIRST, {"placement__randomize_allocation_candidates": True}]
)
def test_capacity_includes_hosts_beyond_the_candidate_limit(sqlite_url, make_app, options):
    settings = make_settings(sqlite_url, scheduler__max_placement_results=2, **options)
    app = make_app(settings)
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    hosts = [make_report(f"cn{number}", memory_mb=2048) for number in range(6)]
    hosts[0] |= down
    app.post_json(NODES_PATH, hosts)
    result = read_capacity(app)
    assert (result["capacity"], result["exact"]) == (10, True)
    app.post_json(NODES_PATH, [hosts[2] | down])
    result = read_capacity(app)
    if "placement__randomize_allocation_candidates" in options:
        assert result["exact"] is False
        assert "may see fewer" in result["inexact_because"][0]
    else:
        assert (result["capacity"], result["exact"]) == (2, True)
        assert result["limited_by"][0]["reason"] == "limit"
        assert len(fill_cloud(app)) == 2


def test_hosts_beyond_the_limit_of_a_too_complex_search_are_accounted_for(sqlite_url, make_app):
    budget = {"placement__allocation_candidates_budget": 40}
    app = make_app(make_settings(sqlite_url, scheduler__max_placement_results=2, **budget))
    app.post_json(NODES_PATH, [make_report(f"cn{number}") for number in range(6)])
    specs = {"resources1:VCPU": "1", "resources2:VCPU": "1", "group_policy": "none"}
    result = read_capacity(app, query={"per": "host"}, flavor=make_flavor(extra_specs=specs))
    assert "only the candidates that one request sees" in result["inexact_because"][0]
    limit, resource = result["limited_by"]
    assert (limit["reason"], limit["hosts"]) == ("limit", 4)
    assert limit["detail"].startswith("[scheduler] max_placement_results")
    assert resource == build_limit("VCPU", 2)
    assert [part["name"] for part in result["per"]] == [f"cn{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("options", "extra_specs"),
    [
        ({}, {"hw:cpu_policy": "dedicated"}),  # found by the second query, which requests VCPU
        (BREADTH_FIRST, {"resources:CUSTOM_CELL": "1"}),
    ],
    ids=["fallback query", "several candidates of a host, breadth first"],
)
def test_capacity_is_inexact_if_the_order_of_limited_candidates_is_unknown(
    sqlite_url, make_app, options, extra_specs
):
    app = make_app(make_settings(sqlite_url, scheduler__max_placement_results=2, **options))
    hosts = [make_report(f"cn{number}", memory_mb=2048) for number in range(4)]
    app.post_json(NODES_PATH, hosts)
    for number in range(8):
        uuid = make_uuid(100 + number)
        add_provider(app, uuid, uuid, parent=uuid_of(f"cn{number % 4}"), CUSTOM_CELL=2)
    request = {"flavor": make_flavor(extra_specs=extra_specs)}
    assert read_capacity(app, **request)["exact"] is True
    app.post_json(
        NODES_PATH, [host | {"last_seen_up": "2020-01-01T00:00:00Z"} for host in hosts[:2]]
    )
    result = read_capacity(app, **request)
    assert result["exact"] is False
    assert "may see fewer" in result["inexact_because"][0]


def test_statement_count_of_a_capacity_query_does_not_depend_on_hosts(sqlite_app):
    app, database = sqlite_app, sqlite_app.app.services.database
    app.post_json(NODES_PATH, [make_report(f"cn{number}") for number in range(3)])
    read_capacity(app)
    with record_statements(database) as few:
        read_capacity(app)
    app.post_json(NODES_PATH, [make_report(f"cn{number}") for number in range(30)])
    read_capacity(app)
    with record_statements(database) as many:
        read_capacity(app)
    assert len(many) == len(few)


DEDICATED_CPU_REQUEST = {"flavor": make_flavor(vcpus=2, extra_specs={"hw:cpu_policy": "dedicated"})}
CELL_UUIDS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def count_hosts_by_reason(result):
    return {
        (entry["reason"], entry.get("detail", "")): entry["hosts"] for entry in result["limited_by"]
    }


@pytest.mark.parametrize("policy", [None, "anti-affinity"])
def test_capacity_counts_nodes_but_each_host_once_for_an_anti_affinity_group(sqlite_app, policy):
    fields = {}
    for number in range(3):
        uuid = make_uuid(50 + number)
        node = make_report("ironic", uuid=uuid, hypervisor_hostname=f"node{number}", memory_mb=1024)
        sqlite_app.post_json(NODES_PATH, [node])
    sqlite_app.post_json(NODES_PATH, [make_report("cn1", memory_mb=1024)])
    if policy:
        fields["instance_group"] = create_group(sqlite_app, policy=policy)
    result = read_capacity(sqlite_app, query={"per": "host"}, **fields)
    expected = {"cn1": 1, "ironic": 1 if policy else 3}
    assert {entry["name"]: entry["capacity"] for entry in result["per"]} == expected
    assert result["exact"] is True
    assert sum(count_hosts_by_reason(result).values()) == 4
    assert Counter(fill_cloud(sqlite_app, **fields)) == expected


def test_capacity_for_members_of_an_anti_affinity_group_excludes_their_hosts(sqlite_app):
    """The count is of further instances, so no member remains on its host."""
    member = make_uuid(7)
    sqlite_app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2")])
    group = create_group(sqlite_app, policy="anti-affinity")
    body = {"request_spec": make_spec(member, instance_group=group, force_hosts=["cn1"])}
    sqlite_app.post_json("/scheduler/v1/select_destinations", body)
    question = {"request_spec": make_spec(member, instance_group=group), "per": "host"}
    parts = sqlite_app.post_json("/scheduler/v1/capacity", question).json["per"]
    assert [(part["name"], part["capacity"]) for part in parts if part["capacity"]] == [("cn2", 1)]


def test_disabled_cell_has_no_capacity(sqlite_url, make_app):
    app = make_app(make_settings(sqlite_url, scheduler__disabled_cells=[CELL_UUIDS[1]]))
    hosts = [
        make_report("cn1", cell_uuid=CELL_UUIDS[0], memory_mb=4096),
        make_report("cn2", cell_uuid=CELL_UUIDS[1]),
        make_report("cn3", cell_uuid=CELL_UUIDS[0], memory_mb=512),
        make_report("cn4", memory_mb=2048),
    ]
    app.post_json(NODES_PATH, hosts)
    result = read_capacity(app, query={"per": "cell"})
    capacities = {entry["name"]: entry["capacity"] for entry in result["per"]}
    assert capacities == {"": 2, CELL_UUIDS[0]: 4, CELL_UUIDS[1]: 0}
    assert count_hosts_by_reason(result) == {("MEMORY_MB", ""): 3, ("enabled_cells", ""): 1}
    assert Counter(fill_cloud(app)) == {"cn1": 4, "cn4": 2}


@pytest.mark.parametrize("falls_back", [True, False])
def test_capacity_counts_hosts_with_pcpu_and_vcpu_once(sqlite_url, make_app, falls_back):
    options = {"workarounds__disable_fallback_pcpu_query": not falls_back}
    settings = make_settings(
        sqlite_url, filter_scheduler__enabled_filters=["ComputeFilter"], **options
    )
    app = make_app(settings)
    app.post_json(NODES_PATH, [make_report(name) for name in ("cn1", "cn2", "cn3")])
    more = {"MEMORY_MB": 65536, "DISK_GB": 1000}
    stocks = {"cn1": {"VCPU": 4, "PCPU": 6}, "cn2": {"VCPU": 8}, "cn3": {"PCPU": 3}}
    for name, totals in stocks.items():
        set_inventory_totals(app, uuid_of(name), {**totals, **more})
    result = read_capacity(app, query={"per": "host"}, **DEDICATED_CPU_REQUEST)
    expected = {"cn1": 3 + 2, "cn2": 4, "cn3": 1} if falls_back else {"cn1": 3, "cn2": 0, "cn3": 1}
    assert {entry["name"]: entry["capacity"] for entry in result["per"]} == expected
    assert result["exact"] is True
    assert sum(count_hosts_by_reason(result).values()) == 3
    assert Counter(fill_cloud(app, **DEDICATED_CPU_REQUEST)) == +Counter(expected)


def test_capacity_for_pci_devices_is_the_sum_over_their_resource_providers(sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        pci__alias=[GPU_ALIAS],
        filter_scheduler__pci_in_placement=True,
        filter_scheduler__enabled_filters=["ComputeFilter", "PciPassthroughFilter"],
    )
    app = make_app(settings)
    totals = [3, 1]
    pools = [
        {**GPU_POOL, "count": total, "rp_uuid": make_uuid(900 + number)}
        for number, total in enumerate(totals)
    ]
    app.post_json(NODES_PATH, [make_report("cn1", pci_device_pools=pools), make_report("cn2")])
    for number, total in enumerate(totals):
        uuid = make_uuid(900 + number)
        add_provider(app, uuid, uuid, parent=uuid_of("cn1"), CUSTOM_PCI_10DE_1DB4=total)
    request = {"flavor": make_flavor(extra_specs={"pci_passthrough:alias": "gpu:1"})}
    result = read_capacity(app, **request)
    assert (result["capacity"], result["exact"]) == (4, True)
    assert sum(count_hosts_by_reason(result).values()) == 2


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
    hosts = [
        make_report("cn1", memory_mb=2048),
        make_report("cn2", memory_mb=3072),
        make_report("cn3", **down),
    ]
    app.post_json(NODES_PATH, hosts)
    fields = {"instance_group": create_group(app, policy=policy)} if policy else {}
    result = read_capacity(app, query={"per": "host"}, **fields)
    has_anti_affinity = policy is not None and driver == "caching_scheduler"
    expected = {"cn1": 1, "cn2": 1} if has_anti_affinity else {"cn1": 2, "cn2": 3}
    assert {entry["name"]: entry["capacity"] for entry in result["per"]} == {**expected, "cn3": 0}
    assert result["capacity"] == len(fill_cloud(app, **fields))


class TickingTimer:
    """A timer that advances by a second at each reading."""

    def __init__(self):
        self.seconds = 0

    def __call__(self):
        self.seconds += 1
        return float(self.seconds)


@pytest.mark.parametrize(("budget", "capacity"), [(3.0, 2 * 2), (6.0, 2 * 5), (0, 2 * 64)])
def test_capacity_count_over_its_time_budget_is_a_lower_bound(
    sqlite_url, make_app, budget, capacity
):
    settings = make_settings(
        sqlite_url,
        scheduler__capacity_budget=budget,
        filter_scheduler__enabled_filters=["NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=64,
    )
    app = make_app(settings)
    app.post_json(NODES_PATH, [make_report("cn1", memory_mb=64 * 1024), make_report("cn2")])
    scheduler = app.app.services.scheduler
    request = scheduler.reader.validate(scheduler.reader.read(make_spec()))
    with app.app.services.database.read() as connection:
        result = count_capacity(
            scheduler, connection, request, deadline=Deadline.from_seconds(budget, TickingTimer())
        )
    assert sum(counter.instances for counter in result.counters) == capacity
    reasons = {counter.limit_reason.reason for counter in result.counters}
    if budget:
        assert reasons == {"capacity_budget"}
        (inexact_reason,) = result.inexact_reasons
        assert inexact_reason == (
            f"the count ended after [scheduler] capacity_budget ({budget:g} s): the number is a "
            "minimum"
        )
    else:
        assert "capacity_budget" not in reasons
        assert list(result.inexact_reasons) == []


def test_flavors_of_a_capacity_query_share_its_time_budget(sqlite_url, make_app, monkeypatch):
    app = make_app(make_settings(sqlite_url, scheduler__capacity_budget=4.0))
    app.post_json(NODES_PATH, [make_report("cn1")])
    monkeypatch.setattr(report_module, "monotonic", TickingTimer())
    flavors = [make_flavor(name=f"f{number}", memory_mb=1024 + number) for number in range(6)]
    body = {"request_spec": {}, "flavors": flavors, "per": "zone"}
    reports = app.post_json("/scheduler/v1/capacity", body).json["flavors"]
    assert [entry["exact"] for entry in reports] == [True] * 4 + [False] * 2
    assert all(entry["capacity"] for entry in reports[:4])
    for entry in reports[4:]:
        assert (entry["capacity"], entry["limited_by"], entry["per"]) == (0, [], [])
        assert entry["inexact_because"] == [
            "the count ended after [scheduler] capacity_budget (4 s): the number is a minimum"
        ]


def test_stranded_amounts_of_a_capacity_report_equal_those_of_the_weigher(sqlite_url, make_app):
    """In a cloud with a single flavor, the report counts the amounts stranded for this flavor."""
    weight = {"filter_scheduler__stranded_resources_weight_multiplier": 10.0}
    cloud = make_app(make_settings(sqlite_url, **weight))
    hosts = [
        make_report("cn1", vcpus=16, memory_mb=4500),
        make_report("cn2", vcpus=4, memory_mb=65536),
        make_report("cn3", vcpus=8, memory_mb=20000, local_gb=77),
    ]
    cloud.post_json(NODES_PATH, hosts)
    store_flavor(cloud, "m2", vcpus=3, ram=2048, disk=10)
    for state in ("empty", "with an instance"):
        with cloud.app.services.database.read() as connection:
            scheduler = cloud.app.services.scheduler
            request = scheduler.reader.read(make_spec(flavor="m2"))
            run = scheduler.prepare_run(connection, request, DecisionSeed.draw(scheduler.random))
        table = FlavorTable.from_flavors(run.filtered_request.spec.cloud_flavors, {})
        rows = table.compute_stranded(table.read(run.hosts))[1].tolist()
        amounts = {state.host: row[:3] for state, row in zip(run.hosts, rows, strict=True)}
        result = read_capacity(cloud, query={"per": "host"}, flavor="m2")
        for part in result["per"]:
            stranded = [part["stranded"].get(name, 0) for name in ("VCPU", "MEMORY_MB", "DISK_GB")]
            assert amounts[part["name"]] == stranded, state
        cloud.post_json(SELECT_PATH, {"request_spec": make_spec(flavor="m2")})
