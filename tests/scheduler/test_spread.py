# SPDX-License-Identifier: Apache-2.0
"""Server groups that are spread over failure domains."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.joint_requests import select_together
from placement_sched.scheduler.spread import check_spread
from tests.conftest import make_settings
from tests.scheduler.concurrent_claims import ClockWithConcurrentClaim
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.server_groups import create_group, post_request_spec
from tests.support.placements import get_error_detail
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.statements import record_statements

SELECT_PATH, EXPLAIN_PATH = "/scheduler/v1/select_destinations", "/scheduler/v1/explain"
SPREAD_FILTERS = ["ComputeFilter", "TopologySpreadFilter"]
NODES_PATH = "/scheduler/v1/compute_nodes"
HARD_SPREAD = {"scheduler:spread_by": "rack", "scheduler:max_skew": "1"}
SOFT_SPREAD = {"scheduler:spread_by": "rack"}
#: Without free resources among the weights, hosts of equal racks are in order of their names.
ZERO_MULTIPLIERS = {
    f"filter_scheduler__{name}_weight_multiplier": 0.0 for name in ("cpu", "disk", "io_ops", "ram")
}


def report_hosts_in_racks(app, **racks):
    """Report hosts with capacity for many instances, and put them into racks."""
    hosts = [host for names in racks.values() for host in names]
    app.post_json(NODES_PATH, [make_report(host) for host in dict.fromkeys(hosts)])
    for number, (rack, names) in enumerate(racks.items(), 1):
        put_aggregate(app, number, {"rack": rack}, *names)


def make_cloud(url, make_app, **options):
    options = {"filter_scheduler__enabled_filters": SPREAD_FILTERS, **ZERO_MULTIPLIERS, **options}
    app = make_app(make_settings(url, **options))
    report_hosts_in_racks(app, r1=["cn1", "cn2", "cn3"], r2=["cn4"])
    app.post_json(NODES_PATH, [make_report("cn5")])
    return app


@pytest.fixture
def cloud(database_url, make_app):
    return make_cloud(database_url, make_app)


@pytest.fixture
def sqlite_cloud(sqlite_url, make_app):
    return make_cloud(sqlite_url, make_app)


def build_spread_fields(group, extra_specs=HARD_SPREAD, **fields):
    return {"flavor": make_flavor(extra_specs=extra_specs), "instance_group": group, **fields}


def create_soft_group(app, **options):
    return create_group(app, policy="soft-anti-affinity", **options)


def list_spread_rejections(result):
    (stage,) = (
        entry for entry in result["funnel"]["filters"] if entry["name"] == "TopologySpreadFilter"
    )
    return {rejection["host"]: rejection["reason"] for rejection in stage["rejected"]}


def test_group_members_are_spread_over_racks(cloud):
    group = create_soft_group(cloud)
    racks = [
        get_selected_hosts(
            post_request_spec(cloud, make_uuid(number), **build_spread_fields(group))
        )[0]
        for number in (1, 2, 3)
    ]
    assert (racks[0], racks[1]) in {("cn1", "cn4"), ("cn4", "cn1")}
    post_request_spec(
        cloud, make_uuid(4), **build_spread_fields(group, SOFT_SPREAD), force_hosts=["cn1"]
    )
    post_request_spec(
        cloud, make_uuid(5), **build_spread_fields(group, SOFT_SPREAD), force_hosts=["cn1"]
    )
    result = post_request_spec(cloud, make_uuid(9), path=EXPLAIN_PATH, **build_spread_fields(group))
    members = {"cn4": 1 + (racks[2] == "cn4")}
    members["cn1"] = 5 - members["cn4"]
    crowded = (
        f"Domain rack=r1 has {members['cn1']} members, the emptiest (r2) has {members['cn4']}: "
        f"skew {members['cn1'] + 1 - members['cn4']} after placement exceeds max_skew 1"
    )
    outside = "no aggregate of the host has metadata 'rack', so it is in no domain"
    expected = dict.fromkeys(("cn1", "cn2", "cn3"), crowded) | {"cn5": outside}
    assert list_spread_rejections(result) == {
        host: reason.replace("1 members", "1 member") for host, reason in expected.items()
    }
    assert get_selected_hosts(result) == ["cn4"]


def test_instances_of_a_request_spread_among_each_other(sqlite_cloud):
    group = create_soft_group(sqlite_cloud)
    uuids = [make_uuid(number) for number in range(1, 8)]
    hosts = get_selected_hosts(
        post_request_spec(sqlite_cloud, *uuids, **build_spread_fields(group))
    )
    racks = ["r2" if host == "cn4" else "r1" for host in hosts]
    for number in range(len(racks) + 1):
        counts = Counter({"r1": 0, "r2": 0}) + Counter(racks[:number])
        assert abs(counts["r1"] - counts["r2"]) <= 1
    body = make_spec(instance_uuids=None, num_instances=4, **build_spread_fields(group))
    response = sqlite_cloud.post_json(EXPLAIN_PATH, {"request_spec": body}).json
    by_rack = Counter("r2" if h == "cn4" else "r1" for h in get_selected_hosts(response))
    assert by_rack == {"r1": 2, "r2": 2}


def test_full_domain_limits_the_instances_of_the_remaining_domains(sqlite_cloud):
    whole = {"flavor": make_flavor(memory_mb=65536, extra_specs=HARD_SPREAD)}
    group = {"instance_group": create_soft_group(sqlite_cloud)}
    uuids = [make_uuid(number) for number in range(1, 5)]
    result = post_request_spec(sqlite_cloud, *uuids, status=409, **whole, **group)
    assert "3 of the 4 instances fit" in get_error_detail(result)
    assert "TopologySpreadFilter rejected all" in get_error_detail(result)
    hosts = get_selected_hosts(post_request_spec(sqlite_cloud, *uuids[:3], **whole, **group))
    assert max(hosts) == "cn4"


def test_soft_spread_prefers_the_emptiest_rack(sqlite_cloud):
    group = create_soft_group(sqlite_cloud)
    for number in (1, 2):
        post_request_spec(
            sqlite_cloud, make_uuid(number), instance_group=group, force_hosts=["cn1"]
        )
    result = post_request_spec(
        sqlite_cloud, make_uuid(3), path=EXPLAIN_PATH, **build_spread_fields(group, SOFT_SPREAD)
    )
    raw = {
        host["host"]: host["weights"]["TopologySpreadWeigher"]["raw"] for host in result["hosts"]
    }
    assert raw == {"cn1": -2.0, "cn2": -2.0, "cn3": -2.0, "cn4": 0.0, "cn5": -3.0}
    assert result["hosts"][0]["host"] == "cn4"
    uuids = [make_uuid(number) for number in (3, 4, 5)]
    hosts = get_selected_hosts(
        post_request_spec(sqlite_cloud, *uuids, **build_spread_fields(group, SOFT_SPREAD))
    )
    assert hosts[:2] == ["cn4", "cn4"]
    plain = post_request_spec(sqlite_cloud, make_uuid(9), path=EXPLAIN_PATH, instance_group=group)
    assert all(row["name"] != "TopologySpreadWeigher" for row in plain["funnel"]["weighers"])


def test_only_racks_of_the_requested_zone_are_compared_for_the_spread(sqlite_cloud):
    put_aggregate(sqlite_cloud, 11, {"availability_zone": "az1"}, "cn1", "cn2")
    group = create_soft_group(sqlite_cloud)
    request = build_spread_fields(group, availability_zone="az1")
    for number in (1, 2, 3):
        assert (
            get_selected_hosts(post_request_spec(sqlite_cloud, make_uuid(number), **request))[0]
            != "cn4"
        )


def test_spread_request_without_a_group_passes_with_a_warning(sqlite_cloud):
    nothing = "the request has no server group, so there are no members to spread"
    result = post_request_spec(
        sqlite_cloud, make_uuid(1), path=EXPLAIN_PATH, flavor=make_flavor(extra_specs=HARD_SPREAD)
    )
    assert result["funnel"]["warnings"] == [
        {
            "key": "scheduler:spread_by",
            "source": "flavor",
            "detail": f"scheduler:spread_by=rack has no effect: {nothing}",
        }
    ]
    assert len(result["hosts"]) == 5
    hints = {"spread_by": "rack", "max_skew": "1"}
    result = post_request_spec(sqlite_cloud, make_uuid(1), path=EXPLAIN_PATH, scheduler_hints=hints)
    assert result["funnel"]["warnings"] == [
        {"key": "spread_by", "source": "hint", "detail": f"spread_by=rack has no effect: {nothing}"}
    ]
    hints = {"max_skew": "1"}
    result = post_request_spec(sqlite_cloud, make_uuid(1), path=EXPLAIN_PATH, scheduler_hints=hints)
    (warning,) = result["funnel"]["warnings"]
    assert warning["detail"] == "hint max_skew has no effect without spread_by"
    wrong = {"scheduler:max_skew": "1", "scheduler:spred_by": "rack"}
    result = post_request_spec(
        sqlite_cloud, make_uuid(1), path=EXPLAIN_PATH, flavor=make_flavor(extra_specs=wrong)
    )
    assert [each["detail"] for each in result["funnel"]["warnings"]] == [
        "scheduler:spred_by has no effect. Did you mean 'scheduler:spread_by'?",
        "scheduler:max_skew has no effect without spread_by",
    ]


def test_unknown_key_of_a_hard_spread_is_an_error_and_of_a_soft_spread_a_warning(sqlite_cloud):
    group, missing = create_soft_group(sqlite_cloud), "no aggregate with hosts has metadata 'rakc'"
    hints = {"spread_by": "rakc", "max_skew": "1"}
    result = post_request_spec(
        sqlite_cloud, make_uuid(1), status=400, instance_group=group, scheduler_hints=hints
    )
    path = "$.request_spec.scheduler_hints.spread_by"
    assert get_error_detail(result) == f"{missing}. Did you mean 'rack'? (at {path})"
    request = build_spread_fields(group, {"scheduler:spread_by": "rakc"})
    result = post_request_spec(sqlite_cloud, make_uuid(1), path=EXPLAIN_PATH, **request)
    (warning,) = result["funnel"]["warnings"]
    expected = f"scheduler:spread_by=rakc has no effect: {missing}. Did you mean 'rack'?"
    assert warning["detail"] == expected
    assert len(result["hosts"]) == 5


def test_hard_spread_without_its_filter_is_an_error(sqlite_url, make_app):
    app = make_cloud(sqlite_url, make_app, filter_scheduler__enabled_filters=["ComputeFilter"])
    group = create_soft_group(app)
    expected = (
        "The members of the server group cannot be spread over 'rack': TopologySpreadFilter is not "
        "enabled, add it to [filter_scheduler] enabled_filters (at "
        "$.request_spec.flavor.extra_specs['scheduler:spread_by'])"
    )
    for path in (SELECT_PATH, EXPLAIN_PATH):
        result = post_request_spec(
            app, make_uuid(1), path=path, status=400, **build_spread_fields(group)
        )
        assert get_error_detail(result) == expected
    post_request_spec(app, make_uuid(1), **build_spread_fields(group, SOFT_SPREAD))
    post_request_spec(app, make_uuid(2), flavor=make_flavor(extra_specs=HARD_SPREAD))


def test_moving_instance_is_not_counted_as_member_of_its_own_domain(sqlite_cloud):
    group = create_soft_group(sqlite_cloud)
    for number, host in ((1, "cn1"), (2, "cn4")):
        post_request_spec(sqlite_cloud, make_uuid(number), instance_group=group, force_hosts=[host])
    body = {
        "request_spec": make_spec(make_uuid(1), **build_spread_fields(group), ignore_hosts=["cn1"]),
        "claim": "add",
    }
    moved = get_selected_hosts(sqlite_cloud.post_json(SELECT_PATH, body).json)
    assert moved == ["cn2"]


@pytest.mark.all_databases
def test_claim_fails_if_the_skew_has_grown(cloud):
    group = create_soft_group(cloud)
    scheduler, database = cloud.app.services.scheduler, cloud.app.services.database
    reader = scheduler.reader
    request = reader.validate(reader.read(make_spec(make_uuid(1), **build_spread_fields(group))))
    with scheduler.source.read() as connection:
        before = scheduler.evaluate(connection, request).filtered_request.spec

    def check_skew(hosts, changed=before):
        database.write(lambda connection: check_spread(connection, changed, hosts))

    check_skew(["cn1"])
    post_request_spec(cloud, make_uuid(2), instance_group=group, force_hosts=["cn2"])
    check_skew(["cn4"])
    with pytest.raises(ConcurrentUpdate, match="rack=r1 has 1 member, the emptiest"):
        check_skew(["cn1"])
    both = replace(before, instance_uuids=(make_uuid(1), make_uuid(3)))
    check_skew(["cn4", "cn1"], both)
    with pytest.raises(ConcurrentUpdate, match="the server group changed: Domain rack=r1"):
        check_skew(["cn1", "cn4"], both)
    # The group of a request that lists its members need not be stored.
    listed = replace(before.instance_group, uuid=None, members=(make_uuid(2),))
    with pytest.raises(ConcurrentUpdate):
        check_skew(["cn1"], replace(before, instance_group=listed))


class HostComparingFilter(BaseHostFilter):
    """A third-party filter that compares hosts, so that the claim locks the server group."""

    def compares_hosts(self, spec_obj):
        return True

    def host_passes(self, host_state, spec_obj):
        return True


def test_claim_of_a_soft_spread_does_not_check_the_skew(sqlite_url, make_app):
    filters = [*SPREAD_FILTERS, f"{__name__}.HostComparingFilter"]
    app = make_cloud(sqlite_url, make_app, filter_scheduler__enabled_filters=filters)
    group = create_soft_group(app)
    for number in (1, 2):
        post_request_spec(app, make_uuid(number), instance_group=group, force_hosts=["cn1"])
    soft = {**HARD_SPREAD, "scheduler:spread_mode": "soft"}
    for number, hosts in ((3, ["cn1"]), (4, ["cn5"])):  # the fullest domain, and no domain
        others = {f"cn{index}" for index in range(1, 6)}.difference(hosts)
        request = build_spread_fields(group, soft, ignore_hosts=sorted(others))
        assert get_selected_hosts(post_request_spec(app, make_uuid(number), **request)) == hosts


@pytest.fixture
def cloud_with_two_racks(sqlite_url, make_app):
    """Two racks with a host in each, and no filter that reads the clock."""
    filters = ["TopologySpreadFilter"]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=filters))
    report_hosts_in_racks(app, r1=["cn1"], r2=["cn2"])
    return app


def select_hosts_together(scheduler, *specs):
    return [get_selected_hosts(result.as_json())[0] for result in select_together(scheduler, specs)]


@pytest.mark.parametrize("recorded", [0, 2])
def test_requests_of_a_joint_call_spread_among_each_other(cloud_with_two_racks, recorded):
    group = create_group(cloud_with_two_racks, policy="soft-affinity")
    for number in range(recorded):
        post_request_spec(cloud_with_two_racks, make_uuid(number), **build_spread_fields(group))
    requests = [
        make_spec(make_uuid(number), **build_spread_fields(group)) for number in range(10, 15)
    ]
    hosts = select_hosts_together(cloud_with_two_racks.app.services.scheduler, *requests)
    for number in range(len(hosts) + 1):
        assert abs(hosts[:number].count("cn1") - hosts[:number].count("cn2")) <= 1
    members = [f"/scheduler/v1/instances/{make_uuid(number)}" for number in range(10, 15)]
    assert [cloud_with_two_racks.get(path).json["host"] for path in members] == hosts


@pytest.mark.parametrize(
    ("rivals", "hosts", "retries"),
    [
        (["cn1", "cn1"], ["cn2", "cn2"], 1),
        # The first request keeps its host, and its member lets the second request keep its host.
        (["cn2"], ["cn1", "cn2"], 0),
        # Only the second request loses its host.
        (["cn2", "cn2"], ["cn1", "cn1"], 1),
    ],
)
def test_joint_claim_is_retried_if_the_skew_has_grown(cloud_with_two_racks, rivals, hosts, retries):
    group = create_group(cloud_with_two_racks, policy="soft-affinity")
    own = cloud_with_two_racks.app.services.scheduler

    def add_members():
        for number, host in enumerate(rivals, 900):
            post_request_spec(
                cloud_with_two_racks, make_uuid(number), instance_group=group, force_hosts=[host]
            )

    scheduler = replace(own, clock=ClockWithConcurrentClaim(add_members))
    begin_stats()
    requests = [make_spec(make_uuid(number), **build_spread_fields(group)) for number in (1, 2)]
    assert select_hosts_together(scheduler, *requests) == hosts
    assert get_request_stats().claims_retried == retries


def test_present_host_of_an_instance_in_an_earlier_request_is_not_counted(cloud_with_two_racks):
    cloud_with_two_racks.post_json(NODES_PATH, [make_report("cn3")])
    put_aggregate(cloud_with_two_racks, 3, {"rack": "r3"}, "cn3")
    group = create_group(cloud_with_two_racks, policy="soft-affinity")
    # Recorded without an allocation, so that the next claim places it again.
    record = {"server_group": group, "host": "cn1", "node": "cn1"}
    cloud_with_two_racks.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", record)
    requests = [
        make_spec(make_uuid(number), **build_spread_fields(group), ignore_hosts=[host, "cn3"])
        for number, host in ((1, "cn1"), (2, "cn2"))
    ]
    assert select_hosts_together(cloud_with_two_racks.app.services.scheduler, *requests) == [
        "cn2",
        "cn1",
    ]


@pytest.mark.all_databases
def test_concurrent_joint_calls_keep_the_skew_within_its_maximum(cloud):
    group = create_group(cloud, policy="soft-affinity")
    scheduler = cloud.app.services.scheduler

    def select_hosts_for_members(number):
        requests = [
            make_spec(make_uuid(index), **build_spread_fields(group))
            for index in (number, number + 1)
        ]
        return select_hosts_together(scheduler, *requests)

    with ThreadPoolExecutor(4) as rivals:
        hosts = [
            host for pair in rivals.map(select_hosts_for_members, (1, 3, 5, 7)) for host in pair
        ]
    assert Counter("r2" if host == "cn4" else "r1" for host in hosts) == {"r1": 4, "r2": 4}


@pytest.mark.slow
def test_statement_count_of_a_spread_request_does_not_depend_on_members(sqlite_cloud):
    group, counts = create_soft_group(sqlite_cloud), set()
    # Several hosts pass, so that weighers run, which read the members.
    wide = {**HARD_SPREAD, "scheduler:max_skew": "9"}
    for number in range(1, 6):
        post_request_spec(sqlite_cloud, make_uuid(number), **build_spread_fields(group))
        with record_statements(sqlite_cloud.app.services.database) as statements:
            body = {
                "request_spec": make_spec(make_uuid(90), **build_spread_fields(group, wide)),
                "claim": False,
            }
            sqlite_cloud.post_json(SELECT_PATH, body)
        counts.add(len(statements))
    with record_statements(sqlite_cloud.app.services.database) as statements:
        body = {"request_spec": make_spec(make_uuid(90), instance_group=group), "claim": False}
        sqlite_cloud.post_json(SELECT_PATH, body)
    assert counts == {len(statements) + 1}
