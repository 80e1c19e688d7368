# SPDX-License-Identifier: Apache-2.0
"""Replay: on the same data a decision is made again as it was; on other data it is said how not."""

import shutil

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.explanation import ExplanationView
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.decision_views import NOW, THEN, replay
from placement_sched.store import decisions
from tests.conftest import make_settings
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.statements import counted
from tests.support.versions import LATEST_HEADERS

RANDOM = {
    "placement__randomize_allocation_candidates": True,
    "filter_scheduler__host_subset_size": 3,
    "filter_scheduler__shuffle_best_same_weighed_hosts": True,
}
DECISIONS = "/scheduler/v1/decisions"


def kept(app, uuid):
    with app.app.services.database.read() as connection:
        return decisions.by_uuid(connection, uuid)


def replayed(app, uuid, **how):
    return replay(app.app.services.scheduler, kept(app, uuid), **how)


def differences(app, uuid, **how):
    return {one["what"]: one for one in replayed(app, uuid, **how)["differences"]}


@st.composite
def clouds(draw):
    """Return reports of hosts, many of them alike, some with a child provider of VGPUs."""
    memory = st.sampled_from([8192, 16384, 16384])
    sizes = draw(st.lists(st.tuples(memory, st.integers(0, 2)), min_size=1, max_size=12))
    return [
        (report(f"cn{n}", memory_mb=size), children) for n, (size, children) in enumerate(sizes)
    ]


def make_cloud(app, cloud):
    app.post_json("/scheduler/v1/compute_nodes", [one for one, _ in cloud])
    for one, children in cloud:
        for number in range(children):
            body = {"name": f"{one['host']}_{number}", "parent_provider_uuid": one["uuid"]}
            child = app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
            inventory = {"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 2}}}
            address = f"/placement/resource_providers/{child.json['uuid']}/inventories"
            app.put_json(address, inventory, headers=LATEST_HEADERS)


@pytest.mark.slow
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    cloud=clouds(),
    asked=st.sampled_from([{}, {"resources:VGPU": "1"}]),
    count=st.integers(1, 3),
    limit=st.sampled_from([2, 5, 1000]),
    explaining=st.booleans(),
)
def test_replay_on_the_same_data_equals_the_decision(
    sqlite_template, tmp_path_factory, make_app, cloud, asked, count, limit, explaining
):
    """With every random choice on, with alternates, in SQL and with the providers in memory."""
    file = tmp_path_factory.mktemp("cloud") / "cloud.db"
    shutil.copy(sqlite_template, file)
    options = {**RANDOM, "scheduler__max_placement_results": limit}
    configured = make_settings(f"sqlite:///{file}", **options)
    app = make_app(configured)
    make_cloud(app, cloud)
    scheduler = app.app.services.scheduler
    request = spec(*map(instance, range(1, count + 1)), flavor=flavor(extra_specs=asked))
    if explaining:
        body = {"request_spec": request, "return_alternates": True, "keep": True}
        app.post_json("/scheduler/v1/explain", body)
    else:
        body = {"request_spec": request, "return_alternates": True, "claim": False}
        app.post_json("/scheduler/v1/select_destinations", body, status="*")
    (decision,) = app.get(DECISIONS).json["decisions"]
    for how in (NOW, THEN):
        assert replay(scheduler, kept(app, decision["uuid"]), settings=how)["differences"] == []
    # Another process has other options, and keeps the providers in memory.
    other = make_app(make_settings(f"sqlite:///{file}"), in_memory=True)
    assert differences(other, decision["uuid"], settings=THEN) == {}


@pytest.fixture
def cloud(app):
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2, 3)])
    return app


def select(app, *numbers, **changes):
    answer = app.app.services.scheduler.select_destinations(
        spec(*map(instance, numbers), **changes), claiming=ClaimMode.NONE
    )
    return answer["decision"]


def test_replay_says_what_other_data_change(cloud):
    uuid = select(cloud, 1)
    chosen = kept(cloud, uuid).places[0].host
    cloud.put_json("/compute/v2.1/os-services/disable", {"host": chosen, "binary": "nova-compute"})
    answer = replayed(cloud, uuid)
    found = {one["what"]: one for one in answer["differences"]}
    place = found[f"host of instance {instance(1)}"]
    assert place["then"] == chosen
    assert place["now"] not in {None, chosen}
    assert (found["hosts found"]["then"], found["hosts found"]["now"]) == (3, 2)
    (verdict,) = answer["now"]["verdicts"]
    assert (verdict["host"], verdict["verdict"]) == (chosen, "rejected")
    assert answer["then"] == cloud.get(f"{DECISIONS}/{uuid}").json | {
        "created_at": answer["then"]["created_at"]
    }


def test_replay_claims_and_records_nothing(cloud):
    uuid = select(cloud, 1)
    with counted(cloud.app.services.database) as statements:
        replayed(cloud, uuid)
    writing = ("INSERT", "UPDATE", "DELETE")
    assert not [one for one in statements if one.lstrip().startswith(writing)]
    assert len(cloud.get(DECISIONS).json["decisions"]) == 1


@pytest.mark.all_databases
def test_replay_of_a_request_that_finds_no_host_any_more_names_the_stage(cloud):
    uuid = select(cloud, 1, flavor=flavor(vcpus=16))
    cloud.app.services.scheduler.select_destinations(
        spec(*map(instance, range(2, 14)), flavor=flavor(vcpus=16))
    )
    found = differences(cloud, uuid)
    assert (found["outcome"]["then"], found["outcome"]["now"]) == ("selected", "no_valid_host")
    assert found["refusing stage"]["then"] is None
    assert "VCPU:16" in found["refusing stage"]["now"]


def test_replay_is_under_settings_of_now_or_of_then(cloud, make_app):
    overrides = {"filter_scheduler.io_ops_weight_multiplier": -3.0}
    body = {"request_spec": spec(instance(1)), "overrides": overrides, "keep": True}
    uuid = cloud.post_json("/scheduler/v1/explain", body).json["decision"]
    running = cloud.app.services.settings
    changed = running.with_overrides({"filter_scheduler.ram_weight_multiplier": -1.0})
    other = make_app(changed)
    assert differences(other, uuid, settings=THEN) == {}
    found = differences(other, uuid, settings=NOW)
    option = found["option filter_scheduler.ram_weight_multiplier"]
    assert (option["then"], option["now"]) == (None, -1.0)
    assert found["multiplier of RAMWeigher"]["now"] == -1.0
    weights = found["weights of cn1"]
    assert weights["then"]["RAMWeigher"] == -weights["now"]["RAMWeigher"] == 1.0
    # What an explanation was asked for under holds in both.
    assert "multiplier of IoOpsWeigher" not in found


def test_replay_with_the_policy_that_was_asked_for(sqlite_url, make_app):
    app = make_app(make_settings(sqlite_url))
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    body = {"request_spec": spec(instance(1)), "policy": "default", "keep": True}
    uuid = app.post_json("/scheduler/v1/explain", body).json["decision"]
    assert kept(app, uuid).conditions.policy == "default"
    assert differences(app, uuid) == {}


def test_replay_sees_the_members_of_a_stored_group_as_they_are(cloud):
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    headers = {"OpenStack-API-Version": "compute 2.64"}
    group = cloud.post_json("/compute/v2.1/os-server-groups", body, headers=headers).json
    uuid = group["server_group"]["id"]
    decision = select(cloud, 1, instance_group=uuid)
    chosen = kept(cloud, decision).places[0].host
    claimed = spec(instance(2), instance_group=uuid, force_hosts=[chosen])
    cloud.app.services.scheduler.select_destinations(claimed)
    found = differences(cloud, decision)
    assert found["filter ServerGroupAntiAffinityFilter"]["now"] == {"before": 3, "after": 2}
    cloud.delete(f"/compute/v2.1/os-server-groups/{uuid}")
    gone = differences(cloud, decision)
    assert (gone["server group"]["then"], gone["server group"]["now"]) == (uuid, None)
    assert "filter ServerGroupAntiAffinityFilter" not in gone


def test_decision_of_an_earlier_release_is_replayed_with_settings_of_now_only(cloud):
    uuid = select(cloud, 1)
    database = cloud.app.services.database
    statement = "UPDATE sched_decisions SET conditions = NULL, best = NULL"
    database.write(lambda connection: connection.exec_driver_sql(statement))
    assert "outcome" not in differences(cloud, uuid, settings=NOW)
    with pytest.raises(Invalid, match="are not recorded"):
        replayed(cloud, uuid, settings=THEN)


def test_attempts_of_one_decision_make_choices_of_their_own():
    """Else the next attempt would choose what others took before."""
    first, second = (DecisionSeed("a", attempt).random().random() for attempt in (0, 1))
    assert first != second
    assert DecisionSeed("a", 1).random().random() == second


def test_lists_of_what_happens_now_are_bounded(cloud):
    uuid = select(cloud, 1, ignore_hosts=["cn1", "cn2"])
    answer = replayed(cloud, uuid, view=ExplanationView(max_rejected=1))
    (stage,) = [one for one in answer["now"]["funnel"]["filters"] if one["before"] != one["after"]]
    assert (stage["before"] - stage["after"], len(stage["rejected"])) == (2, 1)
