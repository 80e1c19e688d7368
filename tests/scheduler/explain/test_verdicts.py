# SPDX-License-Identifier: Apache-2.0
"""explain of single hosts: the verdict on each, with all reasons, beside an unchanged run."""

import pytest

from placement_sched.operations import aggregates
from placement_sched.scheduler.explain import verdicts as module
from tests.conftest import make_settings
from tests.scheduler.explain.test_explanation import adopted as adopted  # noqa: PLC0414 - a fixture
from tests.scheduler.test_scheduler import explain, select
from tests.support.clouds import NOW, uuid_of
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.statements import counted
from tests.support.versions import LATEST_HEADERS

OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def cloud(sqlite_app):
    """Ten hosts that differ in memory, one of them silent, one with two nodes of other names."""
    reports = [
        report(f"cn{n}", memory_mb=16384 * n, **({"last_seen_up": OLD} if n == 5 else {}))
        for n in range(1, 11)
    ]
    two = [report(f"bm{n}", host="ironic", hypervisor_hostname=f"bm{n}.cloud") for n in (1, 2)]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [*reports, *two])
    return sqlite_app


def verdicts(app, *hosts, request=None, **fields):
    return explain(app, request or spec(), hosts=list(hosts), **fields)["verdicts"]


def reasons(verdict) -> list[tuple[str, str, str]]:
    return [(one["stage"], one["name"], one["reason"]) for one in verdict["reasons"]]


def test_a_host_that_passed_has_its_rank_and_weight(cloud):
    told = explain(cloud, spec())
    order = [host["node"] for host in told["hosts"]]
    (verdict,) = verdicts(cloud, "cn7")
    assert verdict == {
        "asked": "cn7",
        "verdict": "passed",
        "host": "cn7",
        "node": "cn7",
        "compute_node_uuid": uuid_of("cn7"),
        "rank": order.index("cn7") + 1,
        "of": len(order),
        "weight": told["hosts"][order.index("cn7")]["weight"],
        "reasons": [],
        "would_pass": None,
        "did_you_mean": [],
        "there_are": [],
    }


def test_without_hosts_there_are_no_verdicts(cloud):
    assert "verdicts" not in explain(cloud, spec())
    assert explain(cloud, spec(), hosts=[])["verdicts"] == []


def test_a_host_is_told_every_reason_of_every_stage(cloud):
    """The silent one lacks memory, too many CPUs are asked for, and the request ignores it."""
    large = flavor(memory_mb=200000, vcpus=17)
    (verdict,) = verdicts(cloud, "cn5", request=spec(flavor=large, ignore_hosts=["CN5"]))
    assert verdict["verdict"] == "rejected"
    stages = [(stage, name) for stage, name, _ in reasons(verdict)]
    assert stages == [
        ("allocation_candidates", "resources MEMORY_MB:200000"),
        ("allocation_candidates", "resources VCPU:17"),
        ("filters", "ignore_hosts"),
        ("filters", "ComputeFilter"),
    ]
    assert reasons(verdict)[0][2] == "MEMORY_MB: 81920 free of 81920, 200000 requested"
    assert reasons(verdict)[1][2] == "VCPU: at most 16 in one allocation (max_unit), 17 requested"
    assert reasons(verdict)[3][2].startswith("no heartbeat for")


def test_the_first_reason_is_the_runs_own_and_later_filters_are_asked_of_the_host_alone(cloud):
    image = {"properties": {"hw_architecture": "aarch64"}}
    request = spec(image=image)
    first = next(
        (stage, entry)
        for stage in explain(cloud, request)["funnel"]["filters"]
        for entry in stage["rejected"]
        if entry["host"] == "cn5"
    )
    (verdict,) = verdicts(cloud, "cn5", request=request)
    told = reasons(verdict)
    assert told[0][1] == first[0]["name"] == "ComputeFilter"
    assert [name for _, name, _ in told] == ["ComputeFilter", "ImagePropertiesFilter"]


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ("ironic", ["bm1.cloud", "bm2.cloud"]),
        ("bm2.cloud", ["bm2.cloud"]),
        (uuid_of("bm1"), ["bm1.cloud"]),
        (uuid_of("bm1").replace("-", "").upper(), ["bm1.cloud"]),
    ],
    ids=["host of two nodes", "node", "uuid", "uuid in another spelling"],
)
def test_a_host_is_found_by_each_of_its_names(cloud, asked, nodes):
    told = explain(cloud, spec(), hosts=[asked])
    assert [one["node"] for one in told["verdicts"]] == nodes
    assert {one["asked"] for one in told["verdicts"]} == {asked}
    assert sorted(host["node"] for host in told["hosts"]) == nodes


def test_a_host_is_found_by_the_name_of_a_child_provider(cloud):
    child = {"name": "cn3_gpu", "parent_provider_uuid": uuid_of("cn3")}
    cloud.post_json("/placement/resource_providers", child, headers=LATEST_HEADERS)
    (verdict,) = verdicts(cloud, "cn3_gpu")
    assert (verdict["verdict"], verdict["node"]) == ("passed", "cn3")


def test_unknown_hosts_are_told_with_near_names_in_the_order_asked(cloud):
    told = verdicts(cloud, "cm7", "cn2", "mars")
    assert [one["verdict"] for one in told] == ["unknown", "passed", "unknown"]
    assert told[0]["did_you_mean"][0] == "cn7"
    assert (told[0]["host"], told[0]["rank"], told[0]["reasons"]) == (None, None, [])
    assert told[2]["did_you_mean"] == []
    assert told[0]["there_are"] == told[2]["there_are"] == []  # they are too many


def test_of_many_unknown_hosts_ten_are_compared_with_all_names(cloud, monkeypatch):
    compared = []
    nearest = module.nearest

    def noted(name, known, most):
        compared.append(name)
        return nearest(name, known, most)

    monkeypatch.setattr(module, "nearest", noted)
    names = [f"cn7{number}" for number in range(100, 600)]
    told = verdicts(cloud, *names)
    assert compared == names[:10]
    assert [one["verdict"] for one in told] == ["unknown"] * 500
    assert "cn7" in told[9]["did_you_mean"]
    assert told[10]["did_you_mean"] == []


def test_where_no_name_is_near_and_there_are_few_all_are_named(sqlite_app):
    hosts = [report("compute-01"), report("ironic")]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", hosts)
    told = explain(sqlite_app, spec(), hosts=["mars", "irony"])["verdicts"]
    named = [(one["did_you_mean"], one["there_are"]) for one in told]
    assert named == [([], ["compute-01", "ironic"]), (["ironic"], [])]


def test_a_name_asked_twice_is_told_once(cloud):
    assert len(verdicts(cloud, "cn2", "cn2")) == 1


@pytest.mark.parametrize("child", [False, True], ids=["flat", "trees"])
def test_a_host_that_a_limit_cut_is_told_so_and_judged_further(cloud, child):
    if child:
        body = {"name": "pci", "parent_provider_uuid": uuid_of("cn1")}
        cloud.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    overrides = {"scheduler.max_placement_results": 2}
    told = explain(cloud, spec(), overrides=overrides, hosts=["cn5", "cn9"])
    silent, cut = told["verdicts"]
    ((stage, name, reason),) = reasons(cut)
    assert (stage, name) == ("allocation_candidates", "limit 2")
    assert "[scheduler] max_placement_results (set in overrides)" in reason
    assert [one["name"] for one in silent["reasons"]] == ["limit 2", "ComputeFilter"]


def test_a_host_that_was_not_drawn_is_told_so(cloud):
    overrides = {
        "scheduler.max_placement_results": 1,
        "placement.randomize_allocation_candidates": True,
    }
    names = [f"cn{n}" for n in (1, 2, 3)]
    told = explain(cloud, spec(), overrides=overrides, hosts=names)["verdicts"]
    words = {one["reason"] for verdict in told for one in verdict["reasons"]}
    assert any("drawn at random" in one for one in words)


def test_a_disabled_host_is_told_with_the_operators_reason(cloud):
    headers = {"OpenStack-API-Version": "compute 2.53"}
    path = "/compute/v2.1/os-services"
    (service,) = cloud.get(f"{path}?host=cn4", headers=headers).json["services"]
    body = {"status": "disabled", "disabled_reason": "broken fan"}
    cloud.put_json(f"{path}/{service['id']}", body, headers=headers)
    (verdict,) = verdicts(cloud, "cn4")
    told = reasons(verdict)
    assert told[0][1] == "root_required !COMPUTE_STATUS_DISABLED"
    assert "broken fan" in told[0][2]
    assert told[1][1] == "ComputeFilter"


def test_a_provider_without_a_report_is_rejected_as_no_compute_node(adopted):
    (verdict,) = verdicts(adopted, "cmp2.cloud", request=spec(flavor=flavor(vcpus=9)))
    assert (verdict["host"], verdict["compute_node_uuid"]) == ("cmp2.cloud", None)
    assert [(one["stage"], one["name"]) for one in verdict["reasons"]] == [
        ("allocation_candidates", "resources VCPU:9"),
        ("filters", "compute_nodes"),
    ]


def test_a_request_filter_that_refuses_is_the_first_reason_and_the_rest_is_asked(cloud):
    request = spec(availability_zone="mars", flavor=flavor(vcpus=17))
    (verdict,) = verdicts(cloud, "cn5", request=request)
    assert [(one["stage"], one["name"]) for one in verdict["reasons"]] == [
        ("request_filters", "map_az_to_placement_aggregate"),
        ("allocation_candidates", "resources VCPU:17"),
        ("filters", "ComputeFilter"),
    ]
    (fit,) = verdicts(cloud, "cn9", request=spec(availability_zone="mars"))
    assert [one["stage"] for one in fit["reasons"]] == ["request_filters"]


def test_in_trees_a_host_is_told_each_constraint_that_none_of_its_providers_meets(cloud):
    child = {"name": "pci", "parent_provider_uuid": uuid_of("cn1")}
    cloud.post_json("/placement/resource_providers", child, headers=LATEST_HEADERS)
    request = spec(flavor=flavor(memory_mb=20000, vcpus=17))
    (verdict,) = verdicts(cloud, "cn1", request=request)
    assert [one["name"] for one in verdict["reasons"]] == [
        "resources MEMORY_MB:20000",
        "resources VCPU:17",
    ]


def test_a_rebuild_asks_only_the_filters_of_a_rebuild(cloud):
    image = {"properties": {"hw_architecture": "aarch64"}}
    cloud.put_json(f"/scheduler/v1/instances/{instance(1)}", {"host": "cn6", "node": "cn6"})
    request = spec(instance(1), image=image, scheduler_hints={"_nova_check_type": ["rebuild"]})
    (verdict,) = verdicts(cloud, "cn5", request={**request, "force_hosts": ["cn6"]})
    assert [one["name"] for one in verdict["reasons"]] == [
        "requested_hosts",
        "ImagePropertiesFilter",
    ]


def test_one_of_several_instances_that_all_passed_keeps_the_rank_of_the_first(cloud):
    """What the first instances took is not counted against the verdict, as in the funnel."""
    request = {key: value for key, value in spec().items() if key != "instance_uuids"}
    request = {**request, "num_instances": 5, "flavor": flavor(memory_mb=16384)}
    told = explain(cloud, request, hosts=["cn10"])
    assert told["verdicts"][0]["rank"] == 1


def test_the_run_is_the_same_with_and_without_hosts(cloud):
    plain, asked = explain(cloud, spec()), explain(cloud, spec(), hosts=["cn5", "cn1"])
    assert asked["selections"] == plain["selections"]
    assert asked["outcome"] == plain["outcome"]


def test_a_forced_host_is_judged_without_filters(cloud):
    (verdict,) = verdicts(cloud, "cn5", request=spec(force_hosts=["cn6"]))
    assert [one["name"] for one in verdict["reasons"]] == [
        f"in_tree {uuid_of('cn6')}",
        "requested_hosts",
    ]


def test_a_host_in_a_forbidden_aggregate_and_of_another_zone_has_both_reasons(cloud):
    def make(connection):
        zone = aggregates.create(connection, uuid_of("zone"), "zone", "az1", NOW)
        aggregates.add_hosts(connection, zone.id, ["cn1"], NOW)

    cloud.app.services.database.write(make)
    (verdict,) = verdicts(cloud, "cn2", request=spec(availability_zone="az1"))
    (reason,) = verdict["reasons"]
    assert reason["name"].split()[0] == "member_of"
    assert reason["reason"] == f"not in aggregate {uuid_of('zone')}"
    assert [change["words"] for change in reason["changes"]] == [
        "add it to aggregate zone",
        "do not confine the request to aggregate zone",
    ]


def test_verdicts_take_as_many_statements_for_ten_hosts_as_for_two(cloud):
    def statements(number):
        names = [f"cn{n}" for n in range(1, number + 1)]
        request = spec(flavor=flavor(memory_mb=150000))
        with counted(cloud.app.services.database) as seen:
            explain(cloud, request, hosts=names)
        return len(seen)

    statements(9)
    assert statements(2) == statements(9)


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ({"host": ["cn1"]}, "did you mean 'hosts'?"),
        ({"overrides": {"filter_scheduler.ram_weight_multiplie": 1}}, "ram_weight_multiplier'?"),
    ],
    ids=["key", "option"],
)
def test_a_wrong_name_is_answered_with_the_nearest_valid_one(cloud, body, meant):
    asked = {"request_spec": spec(), **body}
    answer = cloud.post_json("/scheduler/v1/explain", asked, status=400).json
    assert meant in answer["errors"][0]["detail"]


def test_each_node_of_a_host_has_a_verdict_of_its_own(cloud):
    """Of the host ironic one node is too small for the request, and the other passes."""
    cloud.post_json(
        "/scheduler/v1/compute_nodes",
        [report("bm1", host="ironic", hypervisor_hostname="bm1.cloud", memory_mb=4096)],
    )
    small, large = verdicts(cloud, "ironic", request=spec(flavor=flavor(memory_mb=8192)))
    assert [(one["host"], one["node"]) for one in (small, large)] == [
        ("ironic", "bm1.cloud"),
        ("ironic", "bm2.cloud"),
    ]
    assert (small["verdict"], small["rank"], small["would_pass"]) == ("rejected", None, True)
    assert [name for _, name, _ in reasons(small)] == ["resources MEMORY_MB:8192"]
    assert (large["verdict"], large["reasons"]) == ("passed", [])
    assert large["rank"] is not None


def test_filters_reject_each_node_of_a_host_for_itself(cloud):
    arm = {"supported_hv_specs": [["aarch64", "kvm", "hvm"]]}
    cloud.post_json(
        "/scheduler/v1/compute_nodes",
        [report("bm2", host="ironic", hypervisor_hostname="bm2.cloud", **arm)],
    )
    image = {"properties": {"hw_architecture": "aarch64"}}
    found = {one["node"]: one for one in verdicts(cloud, "ironic", request=spec(image=image))}
    assert found["bm2.cloud"]["verdict"] == "passed"
    assert [name for _, name, _ in reasons(found["bm1.cloud"])] == ["ImagePropertiesFilter"]


def _settled(answer):
    for one in answer["funnel"]["request_filters"]:
        del one["elapsed_ms"]
    return answer


@pytest.mark.slow
@pytest.mark.all_databases
@pytest.mark.usefixtures("log_of_changes")
@pytest.mark.parametrize(
    "request_spec",
    [
        spec(),
        spec(flavor=flavor(memory_mb=200000)),
        spec(flavor=flavor(memory_mb=200000, vcpus=17)),
        spec(flavor=flavor(vcpus=17)),
        spec(flavor=flavor(extra_specs={"trait:CUSTOM_LICENSED": "required"})),
        spec(flavor=flavor(extra_specs={"resources:VGPU": "1"})),
        spec(image={"properties": {"hw_architecture": "s390x"}}),
        spec(availability_zone="mars"),
    ],
    ids=["found", "memory", "two amounts", "unit", "trait", "no inventory", "filter", "zone"],
)
def test_explanations_are_the_same_with_the_providers_in_memory(
    database_url, make_app, request_spec
):
    """Also of requests that find no host, whole and of single hosts."""
    settings = make_settings(database_url, placement__providers_in_memory=True)
    plain, cached = make_app(settings), make_app(settings, in_memory=True)
    plain.post_json(
        "/scheduler/v1/compute_nodes", [report(f"cn{n}", memory_mb=16384 * n) for n in range(1, 5)]
    )
    plain.put("/placement/traits/CUSTOM_LICENSED", headers=LATEST_HEADERS)
    select(plain, spec(flavor=flavor(memory_mb=5000), force_hosts=["cn4"]))
    services = cached.app.services
    services.ready()
    services.scheduler.memory.fill(services.database, 60)
    for more in ({}, {"hosts": ["cn1", "cn4"]}):
        answers = [_settled(explain(app, request_spec, **more)) for app in (plain, cached)]
        assert answers[0] == answers[1]
    assert services.scheduler.memory.provider_cache.figures.full_readings == 1


@pytest.fixture
def large(cloud, monkeypatch):
    """A request so large that only two of the hosts that it rejects are told everything."""
    monkeypatch.setattr(module, "LEAST", 2)
    monkeypatch.setattr(module, "_BUDGET", 1000)
    specs = {f"capabilities:cpu_info:x{n}": "y" for n in range(100)}
    return spec(flavor=flavor(memory_mb=200000, vcpus=17, extra_specs=specs))


def test_of_a_large_request_the_first_hosts_are_told_everything(cloud, large):
    first, second, third = verdicts(cloud, "cn6", "cn8", "cn7", request=large)
    assert [first, second] == verdicts(cloud, "cn6", "cn8", request=large)
    assert len(first["reasons"]) == 3
    kept, said = reasons(third)
    assert kept == reasons(verdicts(cloud, "cn7", request=large)[0])[0]
    assert said == ("filters", "", module.NOT_SOUGHT.format(2))
    assert [one["changes"] for one in third["reasons"]] == [[], []]
    assert third["would_pass"] is None


def test_names_of_one_host_count_each(cloud, large):
    names = ["cn7", uuid_of("cn7"), uuid_of("cn7").upper(), uuid_of("cn7").replace("-", "")]
    told = verdicts(cloud, *names, request=large)
    assert [len(one["reasons"]) for one in told] == [3, 3, 2, 2]
    assert [one["asked"] for one in told] == names


def test_the_first_reason_does_not_depend_on_what_is_shown(cloud, large):
    names = [f"cn{n}" for n in range(1, 11)]
    few = verdicts(cloud, *names, request=large, max_rejected=1)
    assert few == verdicts(cloud, *names, request=large, max_rejected=0)
    assert {reasons(one)[0][1] for one in few} == {"resources MEMORY_MB:200000"}


def test_a_first_reason_is_of_a_filter_or_of_a_request_filter_as_in_the_run(cloud, large):
    ignoring = spec(flavor=large["flavor"] | {"memory_mb": 1, "vcpus": 1}, ignore_hosts=["cn7"])
    told = verdicts(cloud, "cn1", "cn2", "cn7", "cn5", request=ignoring)
    assert [reasons(one)[0][1] for one in told[2:]] == ["ignore_hosts", "ComputeFilter"]


def test_a_host_that_a_limit_cut_is_said_not_to_be_sought(cloud, large):
    one = {"scheduler.max_placement_results": 1}
    asked = spec(flavor=flavor(), ignore_hosts=["q"] * 2000)
    told = verdicts(cloud, *(f"cn{n}" for n in range(1, 11)), request=asked, overrides=one)
    ((stage, name, why),) = reasons([one for one in told if one["verdict"] == "rejected"][-1])
    assert (stage, name) == ("filters", "")
    assert why.startswith("the reason was not evaluated")


def test_a_usual_request_is_told_of_hundreds_of_hosts(cloud, monkeypatch):
    monkeypatch.setattr(module, "LEAST", 0)
    monkeypatch.setattr(module, "_BUDGET", module._BUDGET // 50)
    told = verdicts(
        cloud, *(f"cn{n}" for n in range(1, 11)), request=spec(flavor=flavor(memory_mb=10**6))
    )
    assert all(reasons(one)[-1][1] for one in told if one["verdict"] == "rejected")
