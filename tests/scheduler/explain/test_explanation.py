# SPDX-License-Identifier: Apache-2.0
"""explain: the very same run, told stage by stage, with nothing claimed."""

from uuid import UUID

import pytest
from sqlalchemy import insert

from placement_sched.config.opts import LARGEST
from placement_sched.db.tables import placement_aggregates
from tests.conftest import make_settings
from tests.scheduler.test_scheduler import allocations, explain, instance, select
from tests.support.scheduling import flavor, report, spec
from tests.support.statements import counted
from tests.support.versions import LATEST_HEADERS

OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def cloud(app):
    """Ten hosts that differ in memory, one of them silent."""
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            report(f"cn{n}", memory_mb=16384 * n, **({"last_seen_up": OLD} if n == 5 else {}))
            for n in range(1, 11)
        ],
    )
    return app


def test_every_stage_counts_what_entered_and_what_left(cloud):
    told = explain(cloud, spec(flavor=flavor(memory_mb=40000)))
    candidates = told["funnel"]["allocation_candidates"]
    (memory,) = (step for step in candidates["steps"] if step["before"] != step["after"])
    assert (memory["constraint"], memory["detail"]) == ("resources", "MEMORY_MB:40000")
    assert (candidates["providers"], memory["before"], memory["after"]) == (10, 10, 8)
    assert memory["rejected"][0] == {
        "host": "cn1",
        "node": "cn1",
        "reason": "MEMORY_MB: 16384 free of 16384, 40000 requested",
    }
    (alive, *_) = told["funnel"]["filters"]
    assert (alive["name"], alive["before"], alive["after"]) == ("ComputeFilter", 8, 7)
    assert [entry["host"] for entry in alive["rejected"]] == ["cn5"]
    assert [host["host"] for host in told["hosts"]] == [
        "cn10", "cn9", "cn8", "cn7", "cn6", "cn4", "cn3",
    ]  # fmt: skip


def test_weights_add_up(cloud):
    for host in explain(cloud, spec())["hosts"]:
        total = sum(weight["weighted"] for weight in host["weights"].values())
        assert host["weight"] == pytest.approx(total)
        for weight in host["weights"].values():
            assert weight["weighted"] == weight["normalized"] * weight["multiplier"]


def test_explanation_and_selection_agree(cloud):
    told = explain(cloud, spec(instance(1)))
    assert allocations(cloud, instance(1)) == {}
    assert select(cloud, spec(instance(1)))["selections"] == told["selections"]


def test_query_is_told_encoded_and_sorted(cloud):
    told = explain(cloud, spec())
    assert told["funnel"]["allocation_candidates"]["query"] == (
        "limit=1000&resources=DISK_GB%3A10%2CMEMORY_MB%3A1024%2CVCPU%3A1"
        "&root_required=%21COMPUTE_STATUS_DISABLED"
    )


def test_overrides_evaluate_under_other_settings_and_leave_the_running_ones(cloud):
    overrides = {"filter_scheduler.ram_weight_multiplier": -1.0}
    packed = explain(cloud, spec(), overrides=overrides)
    assert packed["hosts"][0]["host"] == "cn1"
    assert explain(cloud, spec())["hosts"][0]["host"] == "cn10"


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"filter_scheduler.nonsense": 1}, "filter_scheduler.nonsense"),
        ({"filter_scheduler.host_subset_size": "many"}, "host_subset_size"),
        ({"filter_scheduler.enabled_filters": ["ComputeFiltre"]}, "ComputeFilter"),
        ({"filter_scheduler.weight_classes": ["os.abort"]}, "os.abort"),
        ({"placement_database.connection": "sqlite:///other.db"}, "placement_database.connection"),
        ({"api.auth_strategy": "keystone"}, "api.auth_strategy"),
        ({"debug": True}, "'debug'"),
        ({"scheduler.decision_retention": 1}, "scheduler.decision_retention"),
        ({"default_availability_zone": ["a"]}, "default_availability_zone"),
        ({"filter_scheduler.enabled_filters": "ComputeFiltre"}, "ComputeFilter"),
        ({"DEFAULT.service_down_time": 10**15}, "DEFAULT.service_down_time"),
        ({"scheduler.max_attempts": "9" * 30}, "scheduler.max_attempts"),
    ],
    ids=[
        "unknown option",
        "wrong type",
        "unknown filter",
        "code the operator did not name",
        "database",
        "authentication",
        "log",
        "not read per request",
        "list for one value",
        "unknown filter as text",
        "more seconds than there can be",
        "more tries than can be counted",
    ],
)
def test_override_that_cannot_be_is_refused_by_name(cloud, overrides, word):
    body = {"request_spec": spec(), "overrides": overrides}
    (error,) = cloud.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert word in error["detail"]


def test_the_longest_time_that_a_host_may_be_silent_is_counted_with(cloud):
    explain(cloud, spec(), overrides={"DEFAULT.service_down_time": LARGEST})


@pytest.mark.parametrize(
    "written",
    [["ComputeFilter", "AllHostsFilter"], "ComputeFilter,AllHostsFilter"],
    ids=["list", "as in a file"],
)
def test_list_is_overridden_by_a_list_or_by_what_a_file_would_say(cloud, written):
    told = explain(cloud, spec(), overrides={"filter_scheduler.enabled_filters": written})
    names = [one["name"] for one in told["funnel"]["filters"]]
    assert names == ["ComputeFilter", "AllHostsFilter"]


def test_repeatable_option_is_overridden_by_a_text_as_by_one_value(cloud):
    overrides = {
        "filter_scheduler.available_filters": (
            "placement_sched.scheduler.filters.all_hosts_filter.AllHostsFilter"
        ),
        "filter_scheduler.enabled_filters": "AllHostsFilter",
    }
    told = explain(cloud, spec(), overrides=overrides)
    assert [one["name"] for one in told["funnel"]["filters"]] == ["AllHostsFilter"]


def test_hosts_restrict_the_report_but_not_the_run(cloud):
    told = explain(cloud, spec(flavor=flavor(memory_mb=40000)), hosts=["cn2", "cn9"])
    assert [host["host"] for host in told["hosts"]] == ["cn9"]
    steps = told["funnel"]["allocation_candidates"]["steps"]
    assert [entry["host"] for step in steps for entry in step["rejected"]] == ["cn2"]
    assert sum(step["before"] - step["after"] for step in steps) == 2
    assert told["selections"][0][0]["service_host"] == "cn10"


def test_max_rejected_bounds_the_lists_and_not_the_counts(cloud):
    asked = spec(flavor=flavor(memory_mb=150000))
    short = explain(cloud, asked, max_rejected=2)["funnel"]["allocation_candidates"]["steps"]
    whole = explain(cloud, asked, max_rejected=0)["funnel"]["allocation_candidates"]["steps"]
    assert [len(step["rejected"]) for step in short] == [
        min(2, len(step["rejected"])) for step in whole
    ]
    assert [step["after"] for step in short] == [step["after"] for step in whole]


def test_hosts_cut_by_max_placement_results_are_counted(cloud):
    told = explain(cloud, spec(), overrides={"scheduler.max_placement_results": 4})
    last = told["funnel"]["allocation_candidates"]["steps"][-1]
    assert (last["constraint"], last["before"], last["after"]) == ("limit", 10, 4)


def test_plain_run_sends_no_statement_for_an_explanation(cloud):
    database = cloud.app.services.database
    with counted(database) as explained:
        explain(cloud, spec())
    with counted(database) as plain:
        select(cloud, spec(), claim=False)
    plain = [statement for statement in plain if "sched_decision" not in statement]
    assert len(plain) < len(explained)
    assert not any("met_0" in statement for statement in plain)


@pytest.mark.all_databases
def test_as_many_aggregates_as_a_request_may_name_are_asked_of_every_database(app):
    """Even where each of them is there: those that are not, take no part in the statement."""
    uuids = [str(UUID(int=number)) for number in range(1, 10_001)]
    app.app.services.database.write(
        lambda connection: connection.execute(
            insert(placement_aggregates), [{"uuid": uuid} for uuid in uuids]
        )
    )
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    entries = [",".join(uuids[n : n + 250]) for n in range(0, 5_000, 250)]
    asked = spec(
        requested_destination={"aggregates": entries, "forbidden_aggregates": uuids[5_000:]}
    )
    steps = explain(app, asked)["funnel"]["allocation_candidates"]["steps"]
    assert sum(1 for step in steps if step["constraint"] == "member_of") == 21
    select(app, asked, status=409)


def test_disabled_hosts_are_told_with_the_operators_reason(cloud):
    services = "/compute/v2.1/os-services"
    version = {"OpenStack-API-Version": "compute 2.96"}
    (mine,) = [
        one["id"]
        for one in cloud.get(services, headers=version).json["services"]
        if one["host"] == "cn1"
    ]
    change = {"status": "disabled", "disabled_reason": "broken fan"}
    cloud.put_json(f"{services}/{mine}", change, headers=version)
    steps = explain(cloud, spec())["funnel"]["allocation_candidates"]["steps"]
    (step,) = [one for one in steps if one["constraint"] == "root_required"]
    assert step["detail"] == "!COMPUTE_STATUS_DISABLED"
    assert {one["host"]: one["reason"] for one in step["rejected"]} == {
        "cn1": "disabled: broken fan"
    }


def test_what_a_request_comes_to_under_overrides_is_not_asked_of_the_options_without(sqlite_app):
    alias = '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}'
    asked = spec(flavor=flavor(extra_specs={"pci_passthrough:alias": "gpu:1"}))
    told = explain(sqlite_app, asked, overrides={"pci.alias": [alias]})
    assert told["outcome"] == "no_valid_host"
    refused = sqlite_app.post_json(
        "/scheduler/v1/explain", {"request_spec": asked}, status=400
    ).json
    assert "[pci] alias does not configure 'gpu'" in refused["errors"][0]["detail"]


@pytest.fixture
def adopted(sqlite_app):
    """Three providers with room, made as OpenStack placement has them; no node was reported."""
    headers = LATEST_HEADERS
    for number in (1, 2, 3):
        uuid = str(UUID(int=number))
        provider = {"name": f"cmp{number}.cloud", "uuid": uuid}
        sqlite_app.post_json("/placement/resource_providers", provider, headers=headers)
        totals = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
        inventories = {name: {"total": total} for name, total in totals.items()}
        body = {"inventories": inventories, "resource_provider_generation": 0}
        path = f"/placement/resource_providers/{uuid}/inventories"
        sqlite_app.put_json(path, body, headers=headers)
    return sqlite_app


def test_candidates_that_are_no_known_compute_node_are_a_stage(adopted):
    told = explain(adopted, spec())
    assert told["outcome"] == "no_valid_host"
    (stage,) = told["funnel"]["filters"]
    assert (stage["name"], stage["before"], stage["after"]) == ("compute_nodes", 3, 0)
    assert stage["rejected"][0] == {
        "host": "cmp1.cloud",
        "node": "cmp1.cloud",
        "reason": "no compute node is reported under the uuid of this resource provider",
    }
    obstacle = told["funnel"]["obstacle"]
    assert obstacle["reason"].startswith("3 hosts can take the request, but none is a known")
    (error,) = adopted.post_json(
        "/scheduler/v1/select_destinations", {"request_spec": spec()}, status=409
    ).json["errors"]
    assert obstacle["reason"] in error["detail"]
    assert error["funnel"]["filters"] == [stage]


def test_providers_without_a_node_are_counted_beside_hosts(adopted):
    """Also in what is kept of a selection, which lists them by uuid: it asked nobody's name."""
    adopted.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    (stage, *_) = explain(adopted, spec())["funnel"]["filters"]
    assert (stage["name"], stage["before"], stage["after"]) == ("compute_nodes", 4, 1)
    decision = select(adopted, spec(instance(1)))["decision"]
    kept = adopted.get(f"/scheduler/v1/decisions/{decision}").json["funnel"]["filters"][0]
    assert (kept["name"], kept["after"]) == ("compute_nodes", 1)
    assert kept["rejected"][0]["host"] == str(UUID(int=1))


@pytest.mark.parametrize(
    ("overrides", "option"),
    [
        (
            {"scheduler.max_placement_results": 4},
            "[scheduler] max_placement_results (set in overrides)",
        ),
        (
            {"placement.max_allocation_candidates": 4},
            "[placement] max_allocation_candidates (set in overrides)",
        ),
    ],
)
def test_a_limit_names_the_option_that_set_it(cloud, overrides, option):
    told = explain(cloud, spec(), overrides=overrides)
    *_, last = told["funnel"]["allocation_candidates"]["steps"]
    assert (last["constraint"], last["detail"], last["option"]) == ("limit", "4", option)


def test_a_limit_of_trees_names_its_option_in_the_running_settings(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, scheduler__max_placement_results=2))
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(4)])
    child = {"name": "pci", "parent_provider_uuid": report("cn1")["uuid"]}
    headers = LATEST_HEADERS
    app.post_json("/placement/resource_providers", child, headers=headers)
    *_, last = explain(app, spec())["funnel"]["allocation_candidates"]["steps"]
    assert last["detail"] == "2"
    assert last["option"].startswith("[scheduler] max_placement_results")
