# SPDX-License-Identifier: Apache-2.0
"""Recorded decisions: lists, filters, pages and documents."""

import pytest
from sqlalchemy import text

from placement_sched.explain.report import explain
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid

SELECT_PATH = "/scheduler/v1/select_destinations"
DECISIONS_PATH = "/scheduler/v1/decisions"
NOVA_REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
OTHER_REQUEST_ID = "req-7d1f1c7e-0a53-4c86-9a55-1f0b6f0a2c11"
UNKNOWN_UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def cloud_app(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2)])
    return app


def post_selection(app, *instances, status=200, claim=True, sent=None, **fields):
    body = {"request_spec": make_spec(*instances, **fields), "claim": claim}
    headers = {"X-Openstack-Request-Id": sent} if sent else {}
    response = app.post_json(SELECT_PATH, body, headers=headers, status=status).json
    return response["errors"][0] if status == 409 else response


def list_decisions(app, query=""):
    return [decision["uuid"] for decision in app.get(f"{DECISIONS_PATH}{query}").json["decisions"]]


def test_decision_shows_request_funnel_and_selections(cloud_app):
    response = post_selection(cloud_app, make_uuid(1), make_uuid(2))
    shown = cloud_app.get(f"{DECISIONS_PATH}/{response['decision'].upper()}").json
    hosts = [selection[0]["service_host"] for selection in response["selections"]]
    expected = {
        "kind": "select",
        "policy": "default",
        "flavor": "m1",
        "project_id": "p1",
        "instances": [
            {"uuid": make_uuid(number), "host": host}
            for number, host in zip((1, 2), hosts, strict=True)
        ],
        "request": make_spec(make_uuid(1), make_uuid(2)),
        "selections": response["selections"],
    }
    assert {key: shown[key] for key in expected} == expected
    funnel = shown["funnel"]
    candidates = funnel["allocation_candidates"]
    assert "resources=DISK_GB%3A10%2CMEMORY_MB%3A1024%2CVCPU%3A1" in candidates["query"]
    assert candidates["hosts"] == 2
    assert [stage["before"] for stage in funnel["filters"]] == [2] * len(funnel["filters"])
    assert "ComputeFilter" in [one["name"] for one in funnel["filters"]]
    assert "RAMWeigher" in [weigher["name"] for weigher in funnel["weighers"]]


def test_no_valid_host_is_recorded_as_a_decision_with_its_funnel(cloud_app):
    error = post_selection(cloud_app, make_uuid(1), status=409, flavor=make_flavor(vcpus=99))
    shown = cloud_app.get(f"{DECISIONS_PATH}/{error['decision']}").json
    assert (shown["outcome"], shown["selections"]) == ("no_valid_host", [])
    assert shown["instances"] == [{"uuid": make_uuid(1), "host": None}]
    assert shown["funnel"] == error["funnel"]
    (entry,) = cloud_app.get(DECISIONS_PATH).json["decisions"]
    assert entry["stage"] == "resources VCPU"
    assert "99" in entry["reason"]
    assert list_decisions(cloud_app, "?stage=resources+VCPU") == [entry["uuid"]]
    assert list_decisions(cloud_app, "?stage=ComputeFilter") == []
    for body in (entry, shown):
        assert (body["reason_kind"], body["reason_subject"]) == ("capacity", "VCPU")


def test_selected_decision_has_no_reason(cloud_app):
    post_selection(cloud_app, make_uuid(1))
    (entry,) = cloud_app.get(DECISIONS_PATH).json["decisions"]
    names = ("stage", "reason", "reason_kind", "reason_subject")
    assert [entry[name] for name in names] == [None] * 4


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("reason", "count"),
    [
        ("capacity", 2),
        ("capacity:", 2),
        ("capacity:MEMORY_MB", 1),
        ("capacity:memory_mb", 0),
        (":MEMORY_MB", 1),
        ("extra_spec:capabilities:hypervisor_type", 1),
        ("missing_trait", 0),
        ("not_a_kind", 0),
    ],
)
def test_decisions_are_listed_and_counted_by_kind_and_subject_of_the_reason(
    app_with_failures, reason, count
):
    """A subject is the exact text, and may have colons."""
    query = f"?reason={reason}"
    assert len(list_decisions(app_with_failures, query)) == count
    assert app_with_failures.get(f"{DECISION_COUNTS_PATH}{query}").json["total"] == count


@pytest.fixture
def app_with_failures(cloud_app):
    """An application with a decision for each of three reasons."""
    flavors = (
        make_flavor(vcpus=99),
        make_flavor(memory_mb=10**6),
        make_flavor(extra_specs={"capabilities:hypervisor_type": "xen"}),
    )
    for number, flavor in enumerate(flavors):
        post_selection(cloud_app, make_uuid(number), status=409, flavor=flavor)
    return cloud_app


def test_counts_have_the_kinds_and_subjects_of_reasons(app_with_failures):
    post_selection(app_with_failures, make_uuid(7), status=409, flavor=make_flavor(vcpus=98))
    reasons = app_with_failures.get(DECISION_COUNTS_PATH).json["reasons"]
    assert reasons[0] == {
        "name": "capacity:VCPU",
        "kind": "capacity",
        "subject": "VCPU",
        "count": 2,
        "failed": 2,
    }
    assert [each["name"] for each in reasons[1:]] == [
        "capacity:MEMORY_MB",
        "extra_spec:capabilities:hypervisor_type",
    ]


def test_unknown_kind_of_a_reason_is_named_with_similar_kinds(cloud_app):
    (warning,) = cloud_app.get(f"{DECISIONS_PATH}?reason=capcity:VCPU").json["warnings"]
    assert warning["key"] == "reason"
    assert "'capcity'" in warning["detail"]
    assert "'capacity'" in warning["detail"]
    for kind in ("missing_trait:CUSTOM_GPU", "room", "other"):
        assert "warnings" not in cloud_app.get(f"{DECISIONS_PATH}?reason={kind}").json


@pytest.mark.parametrize("claim", [True, False])
def test_decision_is_found_by_request_ids(cloud_app, claim):
    """The ids are the service's own in the response, and the id that nova sent."""
    body = {"request_spec": make_spec(make_uuid(1)), "claim": claim}
    response = cloud_app.post_json(
        SELECT_PATH, body, headers={"X-Openstack-Request-Id": NOVA_REQUEST_ID}
    )
    post_selection(cloud_app, make_uuid(2), sent=OTHER_REQUEST_ID)
    post_selection(cloud_app, make_uuid(3))
    own = response.headers["X-Openstack-Request-Id"]
    assert own not in {NOVA_REQUEST_ID, OTHER_REQUEST_ID}
    uuid = response.json["decision"]
    shown = cloud_app.get(f"{DECISIONS_PATH}/{uuid}").json
    assert (shown["request_id"], shown["global_request_id"]) == (own, NOVA_REQUEST_ID)
    assert list_decisions(cloud_app, f"?request_id={own}") == [uuid]
    assert list_decisions(cloud_app, f"?global_request_id={NOVA_REQUEST_ID}") == [uuid]
    assert list_decisions(cloud_app, f"?request_id={NOVA_REQUEST_ID}") == [uuid]
    assert list_decisions(cloud_app, f"?global_request_id={own}") == []
    assert list_decisions(cloud_app, f"?global_request_id={NOVA_REQUEST_ID.upper()}") == []
    assert list_decisions(
        cloud_app, f"?global_request_id={NOVA_REQUEST_ID}&request_id={own}&limit=1"
    ) == [uuid]


def test_no_valid_host_decision_has_request_ids(cloud_app):
    error = post_selection(
        cloud_app, make_uuid(1), status=409, sent=NOVA_REQUEST_ID, flavor=make_flavor(vcpus=99)
    )
    (shown,) = cloud_app.get(f"{DECISIONS_PATH}?global_request_id={NOVA_REQUEST_ID}").json[
        "decisions"
    ]
    assert shown["uuid"] == error["decision"]
    assert shown["request_id"] == error["request_id"]


def test_repeated_request_for_an_instance_makes_no_new_decision(cloud_app):
    first = post_selection(cloud_app, make_uuid(1), sent=NOVA_REQUEST_ID)["decision"]
    post_selection(cloud_app, make_uuid(1), sent=OTHER_REQUEST_ID)
    assert list_decisions(cloud_app) == [first]
    assert len(list_decisions(cloud_app, f"?global_request_id={NOVA_REQUEST_ID}")) == 1
    assert list_decisions(cloud_app, f"?global_request_id={OTHER_REQUEST_ID}") == []


@pytest.mark.all_databases
def test_explanation_is_recorded_with_its_overrides_if_field_keep_is_true(cloud_app):
    body = {
        "request_spec": make_spec(make_uuid(1)),
        "overrides": {"filter_scheduler.ram_weight_multiplier": -2.0},
        "keep": True,
    }
    response = cloud_app.post_json(
        "/scheduler/v1/explain", body, headers={"X-Openstack-Request-Id": NOVA_REQUEST_ID}
    )
    explanation = response.json
    assert list_decisions(cloud_app, "?kind=explain") == [explanation["decision"]]
    assert list_decisions(cloud_app, f"?request_id={NOVA_REQUEST_ID}") == [explanation["decision"]]
    shown = cloud_app.get(f"{DECISIONS_PATH}/{explanation['decision']}").json
    # The funnel is the same, since nothing changed between both requests.
    assert shown["funnel"] == explanation["funnel"]
    assert [one["host"] for one in shown["best"]] == [host["host"] for host in explanation["hosts"]]
    assert shown["conditions"]["overrides"] == body["overrides"]
    assert shown["conditions"]["options"]["filter_scheduler.ram_weight_multiplier"] == -2.0
    assert cloud_app.get("/scheduler/v1/instances").json["instances"] == []


@pytest.mark.parametrize("fields", [{}, {"hosts": ["cn1"]}, {"max_rejected": 1}])
def test_recorded_explanation_has_one_funnel_with_all_hosts(cloud_app, monkeypatch, fields):
    request = make_spec(make_uuid(1), flavor=make_flavor(vcpus=999))
    body = {"request_spec": request, "keep": True}
    expected = cloud_app.post_json("/scheduler/v1/explain", body).json["funnel"]
    explained = []

    def count_and_explain(run, view):
        explained.append(run)
        return explain(run, view)

    monkeypatch.setattr("placement_sched.scheduler.explain.funnel.explain", count_and_explain)
    response = cloud_app.post_json("/scheduler/v1/explain", {**body, **fields}).json
    assert len(explained) == 1
    recorded = cloud_app.get(f"{DECISIONS_PATH}/{response['decision']}").json["funnel"]
    (step,), (recorded_step,), (expected_step,) = (
        [each for each in funnel["allocation_candidates"]["steps"] if each["rejected"]]
        for funnel in (response["funnel"], recorded, expected)
    )
    assert recorded_step == expected_step
    assert len(recorded_step["rejected"]) > 1
    assert len(step["rejected"]) == (1 if fields else len(expected_step["rejected"]))


def test_explanation_with_too_many_overrides_or_changes_is_not_recorded(cloud_app):
    many = [f"cn{number:0100}" for number in range(1000)]
    body = {
        "request_spec": make_spec(make_uuid(1)),
        "overrides": {"filter_scheduler.isolated_hosts": many},
        "keep": True,
    }
    (error,) = cloud_app.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert "too large to record" in error["detail"]
    changes = [{"drain": [f"cn{number:0200}" for number in range(100)]}]
    changed = {"request_spec": make_spec(make_uuid(1)), "changes": changes, "keep": True}
    (error,) = cloud_app.post_json("/scheduler/v1/explain", changed, status=400).json["errors"]
    assert "changes: too large to record" in error["detail"]
    del body["keep"]
    cloud_app.post_json("/scheduler/v1/explain", body)
    assert list_decisions(cloud_app) == []


def test_recorded_settings_of_a_decision_omit_startup_options(cloud_app):
    """The address of the database with its password is such an option."""
    shown = cloud_app.get(
        f"{DECISIONS_PATH}/{post_selection(cloud_app, make_uuid(1))['decision']}"
    ).json
    options = shown["conditions"]["options"]
    assert not [key for key in options if key.startswith(("placement_database.", "api."))]
    assert str(cloud_app.app.services.settings.placement_database.connection) not in str(options)


def test_selection_without_claims_is_recorded_with_the_kind_no_claim(cloud_app):
    """Nothing is allocated, with or without a valid host."""
    claimed = post_selection(cloud_app, make_uuid(1))["decision"]
    tried = post_selection(cloud_app, make_uuid(2), claim=False)["decision"]
    large = make_flavor(vcpus=99)
    failed = post_selection(cloud_app, make_uuid(3), claim=False, status=409, flavor=large)[
        "decision"
    ]
    cloud_app.post_json("/scheduler/v1/explain", {"request_spec": make_spec(make_uuid(1))})
    kinds = {
        decision["uuid"]: decision["kind"]
        for decision in cloud_app.get(DECISIONS_PATH).json["decisions"]
    }
    assert kinds == {claimed: "select", tried: "no_claim", failed: "no_claim"}
    assert list_decisions(cloud_app, "?kind=no_claim") == [failed, tried]
    assert list_decisions(cloud_app, "?kind=select") == [claimed]
    assert list_decisions(cloud_app, "?kind=no_claim&outcome=selected") == [tried]
    assert (
        list_decisions(cloud_app, "?kind=shadow")
        == list_decisions(cloud_app, "?kind=explain")
        == []
    )


def test_decision_about_a_rebuild_is_recorded_with_the_kind_select(cloud_app):
    post_selection(cloud_app, make_uuid(1), force_hosts=["cn1"])
    hints = {"_nova_check_type": ["rebuild"]}
    rebuilt = post_selection(cloud_app, make_uuid(1), scheduler_hints=hints, force_hosts=["cn1"])
    decision = rebuilt["decision"]
    assert cloud_app.get(f"{DECISIONS_PATH}/{decision}").json["kind"] == "select"


def test_flavor_of_a_decision_is_null_if_the_requested_flavor_has_no_name(cloud_app):
    nameless = {key: value for key, value in make_flavor().items() if key != "name"}
    decision = post_selection(cloud_app, make_uuid(1), flavor=nameless)["decision"]
    assert cloud_app.get(f"{DECISIONS_PATH}/{decision}").json["flavor"] is None


@pytest.fixture
def app_with_three_decisions(cloud_app):
    """Decisions on instance 1 (cn1), 2 (cn2, of another project) and 3 (no valid host)."""
    first = post_selection(cloud_app, make_uuid(1), force_hosts=["cn1"])["decision"]
    second = post_selection(cloud_app, make_uuid(2), force_hosts=["cn2"], project_id="p2")[
        "decision"
    ]
    third = post_selection(cloud_app, make_uuid(3), status=409, flavor=make_flavor(vcpus=99))[
        "decision"
    ]
    return cloud_app, [first, second, third]


@pytest.mark.slow
@pytest.mark.all_databases
def test_decisions_are_filtered_and_listed_newest_first(app_with_three_decisions):
    app, uuids = app_with_three_decisions
    for query, numbers in [
        ("", [2, 1, 0]),
        ("?outcome=selected", [1, 0]),
        ("?outcome=no_valid_host", [2]),
        ("?project_id=p1", [2, 0]),
        ("?project_id=P1", []),
        (f"?instance={make_uuid(2)}", [1]),
        (f"?instance={make_uuid(3).replace('-', '')}", [2]),
        (f"?instance={UNKNOWN_UUID}", []),
        ("?host=cn1", [0]),
        ("?host=CN1", []),
        ("?host=cn1&project_id=p2", []),
        ("?since=2020-01-01T00:00:00Z", [2, 1, 0]),
        ("?since=2999-01-01", []),
        ("?until=2020-01-01", []),
        ("?since=2020-01-01&until=2999-01-01", [2, 1, 0]),
        ("?limit=2", [2, 1]),
        ("?flavor=m1", [2, 1, 0]),
        ("?flavor=M1", []),
        ("?policy=default", [2, 1, 0]),
        ("?policy=Default&host=cn2", [1]),
        ("?policy=gold", []),
    ]:
        assert list_decisions(app, query) == [uuids[place] for place in numbers], query


def test_next_links_of_decisions_lead_through_all_matching_decisions(app_with_three_decisions):
    app, uuids = app_with_three_decisions
    page = app.get(f"{DECISIONS_PATH}?limit=1&project_id=p1").json
    seen = [page["decisions"][0]["uuid"]]
    while page["links"]:
        page = app.get(page["links"][0]["href"]).json
        seen += [decision["uuid"] for decision in page["decisions"]]
    assert seen == [uuids[2], uuids[0]]
    assert list_decisions(app, f"?marker={UNKNOWN_UUID}") == []


def test_unknown_decision_is_404(cloud_app):
    for uuid in [UNKNOWN_UUID, "nonsense"]:
        cloud_app.post_json(f"{DECISIONS_PATH}/{uuid}/replay", {}, status=404)
        (error,) = cloud_app.get(f"{DECISIONS_PATH}/{uuid}", status=404).json["errors"]
        assert uuid in error["detail"], uuid


@pytest.mark.all_databases
def test_decisions_that_rejected_a_host_are_listed_with_reasons_by_page(app_with_three_decisions):
    """The third request found no host, so its search counted the rejections of each host."""
    app, uuids = app_with_three_decisions
    body = app.get(f"{DECISIONS_PATH}?rejected=cn1").json
    assert [one["uuid"] for one in body["decisions"]] == [uuids[2]]
    (rejection,) = body["decisions"][0]["rejections"]
    assert (rejection["stage"], rejection["name"]) == ("allocation_candidates", "resources VCPU:99")
    # The first decision selected the host. The second may have rejected it.
    assert body["rejected"] == {"examined": 3, "unknown": 1}
    assert app.get(f"{DECISIONS_PATH}?rejected=cn7").json["rejected"] == {
        "examined": 3,
        "unknown": 2,
    }
    page = app.get(f"{DECISIONS_PATH}?rejected=cn1&limit=1").json
    assert [one["uuid"] for one in page["decisions"]] == [uuids[2]]
    rest = app.get(page["links"][0]["href"]).json
    assert (rest["decisions"], rest["rejected"]) == ([], {"examined": 2, "unknown": 1})


def test_host_that_a_truncated_funnel_does_not_list_counts_as_unknown(cloud_app):
    """Each stage keeps a hundred rejected hosts, and any host may be among the others."""
    cloud_app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"m{number}") for number in range(150)]
    )
    error = post_selection(cloud_app, make_uuid(1), status=409, flavor=make_flavor(vcpus=99))
    (step,) = (
        each for each in error["funnel"]["allocation_candidates"]["steps"] if each["rejected"]
    )
    listed = {rejection["host"] for rejection in step["rejected"]}
    others = {"cn1", "cn2", *(f"m{number}" for number in range(150))} - listed
    assert len(listed) == 100
    for name, shown in ((min(listed), (1, 0)), (min(others), (0, 1)), ("mars", (0, 1))):
        body = cloud_app.get(f"{DECISIONS_PATH}?rejected={name}").json
        assert (len(body["decisions"]), body["rejected"]["unknown"]) == shown, name


@pytest.mark.all_databases
def test_page_of_decisions_without_a_limit_has_at_most_a_thousand(cloud_app):
    database = cloud_app.app.services.database
    statement = text(
        "INSERT INTO sched_decisions (uuid, outcome, kind, request_digest, request, selections) "
        "VALUES (:uuid, 'selected', 'select', '', '{}', '{}')"
    )
    rows = [{"uuid": make_uuid(number)} for number in range(1, 1003)]
    database.write(lambda connection: connection.execute(statement, rows))
    page = cloud_app.get(DECISIONS_PATH).json
    assert len(page["decisions"]) == 1000
    rest = cloud_app.get(page["links"][0]["href"]).json
    assert (len(rest["decisions"]), rest["links"]) == (2, [])


def test_replay_of_a_decision_returns_recorded_and_new_result_with_differences(cloud_app):
    uuid = post_selection(cloud_app, make_uuid(1), claim=False)["decision"]
    response = cloud_app.post_json(f"{DECISIONS_PATH}/{uuid}/replay", {}).json
    assert response["then"] == cloud_app.get(f"{DECISIONS_PATH}/{uuid}").json
    assert (response["now"]["outcome"], response["differences"]) == ("selected", [])
    cloud_app.put_json(
        "/compute/v2.1/os-services/disable", {"host": "cn1", "binary": "nova-compute"}
    )
    response = cloud_app.post_json(f"{DECISIONS_PATH}/{uuid}/replay", {"settings": "then"}).json
    differences = {
        difference["what"]: (difference["then"], difference["now"])
        for difference in response["differences"]
    }
    assert differences["hosts found"] == (2, 1)
    assert len(list_decisions(cloud_app)) == 1


def test_recorded_explanation_is_replayed_with_its_changes(cloud_app):
    changes = [{"drain": ["cn1"]}, {"add": {"like": "cn2", "count": 2}}]
    body = {"request_spec": make_spec(make_uuid(1)), "changes": changes, "keep": True}
    explained = cloud_app.post_json("/scheduler/v1/explain", body).json
    assert {host["host"] for host in explained["hosts"]} == {"cn2", "cn2+1", "cn2+2"}
    shown = cloud_app.get(f"{DECISIONS_PATH}/{explained['decision']}").json
    assert (shown["kind"], shown["conditions"]["changes"]) == ("explain", changes)
    replayed = cloud_app.post_json(f"{DECISIONS_PATH}/{shown['uuid']}/replay", {}).json
    assert {host["host"] for host in replayed["now"]["hosts"]} == {"cn2", "cn2+1", "cn2+2"}
    assert replayed["differences"] == []
    # The cloud itself is unchanged.
    plain = cloud_app.post_json(
        "/scheduler/v1/explain", {"request_spec": make_spec(make_uuid(1))}
    ).json
    assert {host["host"] for host in plain["hosts"]} == {"cn1", "cn2"}


DECISION_COUNTS_PATH = "/scheduler/v1/decision_counts"


def test_instance_in_the_decision_list_has_its_recorded_display_name(cloud_app):
    post_selection(cloud_app, make_uuid(1))
    cloud_app.put_json(
        f"/scheduler/v1/instances/{make_uuid(1)}", {"host": "cn1", "display_name": "web-1"}
    )
    post_selection(cloud_app, make_uuid(2))
    entries = cloud_app.get(DECISIONS_PATH).json["decisions"]
    names = {entry["instances"][0]["uuid"]: entry["instances"][0]["name"] for entry in entries}
    assert names[make_uuid(1)] == "web-1"


def test_decisions_are_counted_by_outcome_stage_project_and_time_interval(cloud_app):
    for number in (1, 2, 3):
        post_selection(cloud_app, make_uuid(number))
    post_selection(
        cloud_app, make_uuid(4), status=409, flavor=make_flavor(vcpus=99), project_id="p2"
    )
    counts = cloud_app.get(DECISION_COUNTS_PATH).json
    assert (counts["total"], counts["outcomes"]) == (4, {"selected": 3, "no_valid_host": 1})
    assert counts["stages"] == [{"name": "resources VCPU", "count": 1, "failed": 1}]
    assert counts["projects"] == [
        {"name": "p1", "count": 3, "failed": 0},
        {"name": "p2", "count": 1, "failed": 1},
    ]
    assert counts["flavors"] == [{"name": "m1", "count": 4, "failed": 1}]
    buckets = counts["buckets"]
    assert sum(bucket["selected"] for bucket in buckets) == 3
    assert sum(bucket["no_valid_host"] for bucket in buckets) == 1
    assert cloud_app.get(f"{DECISION_COUNTS_PATH}?project_id=p2").json["total"] == 1
    assert cloud_app.get(f"{DECISION_COUNTS_PATH}?until=2000-01-01T00:00:00").json["buckets"] == []


def test_intervals_of_decision_counts_are_longer_for_longer_time_ranges(cloud_app):
    for since, seconds in [
        ("2026-01-01T10:00:00", 60),
        ("2025-12-31T12:00:00", 600),
        ("2025-12-27T12:00:00", 3600),
        ("2025-12-01T12:00:00", 21_600),
        ("2025-10-01T12:00:00", 86_400),
        ("2015-10-01T12:00:00", 604_800),
    ]:
        counts = cloud_app.get(
            f"{DECISION_COUNTS_PATH}?since={since}&until=2026-01-01T12:00:00"
        ).json
        assert (counts["bucket_seconds"], counts["total"]) == (seconds, 0), since


def test_invalid_query_parameter_of_decisions_is_400_with_its_name(cloud_app):
    assert "rejected" in cloud_app.get(f"{DECISION_COUNTS_PATH}?rejected=cn1", status=400).text
    for query in (
        *("outcome=maybe", "kind=Select", "flavor=", "instance=cn1", "since=yesterday"),
        *("limit=0", "marker=x", "nonsense=1", "request_id="),
    ):
        (error,) = cloud_app.get(f"{DECISIONS_PATH}?{query}", status=400).json["errors"]
        assert query.partition("=")[0] in error["detail"], query


def test_invalid_replay_body_is_400_with_the_path_of_the_error(cloud_app):
    uuid = post_selection(cloud_app, make_uuid(1), claim=False)["decision"]
    for body, place in (
        ({"settings": "tomorrow"}, "$.settings"),
        ({"max_rejected": -1}, "$.max_rejected"),
        ({"hosts": []}, "hosts"),
    ):
        (error,) = cloud_app.post_json(f"{DECISIONS_PATH}/{uuid}/replay", body, status=400).json[
            "errors"
        ]
        assert place in error["detail"]
