# SPDX-License-Identifier: Apache-2.0
"""Replays of decisions, on the same and on other data."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from placement_sched.api.scheduler.decision_views import CURRENT_SETTINGS, RECORDED_SETTINGS, replay
from placement_sched.errors import Invalid
from placement_sched.explain.values import ExplanationView
from placement_sched.model.decision import DecisionSeed
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.store import decisions
from tests.conftest import make_settings
from tests.exploring import scale_example_count
from tests.scheduler.conftest import make_new_app as make_new_app  # noqa: PLC0414 - a fixture
from tests.scheduler.providers import add_provider
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.statements import record_statements

RANDOMIZING_OPTIONS = {
    "placement__randomize_allocation_candidates": True,
    "filter_scheduler__host_subset_size": 3,
    "filter_scheduler__shuffle_best_same_weighed_hosts": True,
}
DECISIONS_PATH = "/scheduler/v1/decisions"


def read_decision(app, uuid):
    with app.app.services.database.read() as connection:
        return decisions.get_by_uuid(connection, uuid)


def replay_decision(app, uuid, **how):
    return replay(app.app.services.scheduler, read_decision(app, uuid), **how)


def read_replay_differences(app, uuid, **how):
    return {
        difference["what"]: difference
        for difference in replay_decision(app, uuid, **how)["differences"]
    }


@st.composite
def draw_random_cloud(draw):
    """Return reports of hosts, many of them equal, some with a child provider of VGPUs."""
    memory = st.sampled_from([8192, 16384, 16384])
    sizes = draw(st.lists(st.tuples(memory, st.integers(0, 2)), min_size=1, max_size=12))
    return [
        (make_report(f"cn{n}", memory_mb=size), children)
        for n, (size, children) in enumerate(sizes)
    ]


def report_random_cloud(app, cloud):
    app.post_json("/scheduler/v1/compute_nodes", [node for node, _ in cloud])
    for node, children in cloud:
        for number in range(children):
            add_provider(app, f"{node['host']}_{number}", parent=node["uuid"], VGPU=2)


@pytest.mark.slow
@hypothesis_settings(
    max_examples=scale_example_count(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    cloud=draw_random_cloud(),
    extra_specs=st.sampled_from([{}, {"resources:VGPU": "1"}]),
    count=st.integers(1, 3),
    limit=st.sampled_from([2, 5, 1000]),
    is_explanation=st.booleans(),
)
def test_replay_on_the_same_data_equals_the_decision(
    make_new_app, make_app, cloud, extra_specs, count, limit, is_explanation
):
    app = make_new_app(**RANDOMIZING_OPTIONS, scheduler__max_placement_results=limit)
    report_random_cloud(app, cloud)
    scheduler = app.app.services.scheduler
    request = make_spec(
        *map(make_uuid, range(1, count + 1)), flavor=make_flavor(extra_specs=extra_specs)
    )
    if is_explanation:
        body = {"request_spec": request, "return_alternates": True, "keep": True}
        app.post_json("/scheduler/v1/explain", body)
    else:
        body = {"request_spec": request, "return_alternates": True, "claim": False}
        app.post_json("/scheduler/v1/select_destinations", body, status="*")
    (decision,) = app.get(DECISIONS_PATH).json["decisions"]
    for how in (CURRENT_SETTINGS, RECORDED_SETTINGS):
        assert (
            replay(scheduler, read_decision(app, decision["uuid"]), settings=how)["differences"]
            == []
        )
    # Another process has other options, and keeps the providers in memory.
    url = app.app.services.database.url.render_as_string(hide_password=False)
    other = make_app(make_settings(url))
    assert read_replay_differences(other, decision["uuid"], settings=RECORDED_SETTINGS) == {}


@pytest.fixture
def cloud(app):
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2, 3)]
    )
    return app


def select_and_get_decision_uuid(app, *numbers, **changes):
    result = app.app.services.scheduler.select_destinations(
        make_spec(*map(make_uuid, numbers), **changes), claiming=ClaimMode.NONE
    ).as_json()
    return result["decision"]


def test_replay_on_changed_data_lists_the_differences(cloud):
    uuid = select_and_get_decision_uuid(cloud, 1)
    chosen = read_decision(cloud, uuid).instances[0].host
    cloud.put_json("/compute/v2.1/os-services/disable", {"host": chosen, "binary": "nova-compute"})
    replay = replay_decision(cloud, uuid)
    result = {difference["what"]: difference for difference in replay["differences"]}
    place = result[f"host of instance {make_uuid(1)}"]
    assert place["then"] == chosen
    assert place["now"] not in {None, chosen}
    assert (result["hosts found"]["then"], result["hosts found"]["now"]) == (3, 2)
    (verdict,) = replay["now"]["verdicts"]
    assert (verdict["host"], verdict["verdict"]) == (chosen, "rejected")
    expected = cloud.get(f"{DECISIONS_PATH}/{uuid}").json | {
        "created_at": replay["then"]["created_at"]
    }
    assert replay["then"] == expected


def test_replay_records_nothing_and_has_limited_lists(cloud):
    uuid = select_and_get_decision_uuid(cloud, 1, ignore_hosts=["cn1", "cn2"])
    with record_statements(cloud.app.services.database) as statements:
        result = replay_decision(cloud, uuid, view=ExplanationView(max_rejected=1))
    writing = ("INSERT", "UPDATE", "DELETE")
    assert not [statement for statement in statements if statement.lstrip().startswith(writing)]
    assert len(cloud.get(DECISIONS_PATH).json["decisions"]) == 1
    stages = result["now"]["funnel"]["filters"]
    (stage,) = [stage for stage in stages if stage["before"] != stage["after"]]
    assert (stage["before"] - stage["after"], len(stage["rejected"])) == (2, 1)


@pytest.mark.all_databases
def test_replay_that_finds_no_host_names_the_stage(cloud):
    uuid = select_and_get_decision_uuid(cloud, 1, flavor=make_flavor(vcpus=16))
    cloud.app.services.scheduler.select_destinations(
        make_spec(*map(make_uuid, range(2, 14)), flavor=make_flavor(vcpus=16))
    )
    result = read_replay_differences(cloud, uuid)
    assert (result["outcome"]["then"], result["outcome"]["now"]) == ("selected", "no_valid_host")
    assert result["rejecting stage"]["then"] is None
    assert "VCPU:16" in result["rejecting stage"]["now"]


def test_replay_uses_current_or_recorded_settings(cloud, make_app):
    overrides = {"filter_scheduler.io_ops_weight_multiplier": -3.0}
    body = {"request_spec": make_spec(make_uuid(1)), "overrides": overrides, "keep": True}
    body["policy"] = "default"
    uuid = cloud.post_json("/scheduler/v1/explain", body).json["decision"]
    assert read_decision(cloud, uuid).conditions.policy == "default"
    running = cloud.app.services.settings
    changed = running.with_overrides({"filter_scheduler.ram_weight_multiplier": -1.0})
    other = make_app(changed)
    assert read_replay_differences(other, uuid, settings=RECORDED_SETTINGS) == {}
    result = read_replay_differences(other, uuid, settings=CURRENT_SETTINGS)
    option = result["option filter_scheduler.ram_weight_multiplier"]
    assert (option["then"], option["now"]) == (None, -1.0)
    assert result["multiplier of RAMWeigher"]["now"] == -1.0
    weights = result["weights of cn1"]
    assert weights["then"]["RAMWeigher"] == -weights["now"]["RAMWeigher"] == 1.0
    # Overrides of the explanation apply to both runs.
    assert "multiplier of IoOpsWeigher" not in result


def test_replay_reads_the_current_members_of_a_group(cloud):
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    headers = {"OpenStack-API-Version": "compute 2.64"}
    group = cloud.post_json("/compute/v2.1/os-server-groups", body, headers=headers).json
    uuid = group["server_group"]["id"]
    decision = select_and_get_decision_uuid(cloud, 1, instance_group=uuid)
    chosen = read_decision(cloud, decision).instances[0].host
    claimed = make_spec(make_uuid(2), instance_group=uuid, force_hosts=[chosen])
    cloud.app.services.scheduler.select_destinations(claimed)
    result = read_replay_differences(cloud, decision)
    assert result["filter ServerGroupAntiAffinityFilter"]["now"] == {"before": 3, "after": 2}
    cloud.delete(f"/compute/v2.1/os-server-groups/{uuid}")
    without_group = read_replay_differences(cloud, decision)
    groups = (without_group["server group"]["then"], without_group["server group"]["now"])
    assert groups == (uuid, None)
    assert "filter ServerGroupAntiAffinityFilter" not in without_group


def test_decision_of_an_earlier_release_has_no_recorded_settings(cloud):
    uuid = select_and_get_decision_uuid(cloud, 1)
    database = cloud.app.services.database
    statement = "UPDATE sched_decisions SET conditions = NULL, best = NULL"
    database.write(lambda connection: connection.exec_driver_sql(statement))
    assert "outcome" not in read_replay_differences(cloud, uuid, settings=CURRENT_SETTINGS)
    with pytest.raises(Invalid, match="are not recorded"):
        replay_decision(cloud, uuid, settings=RECORDED_SETTINGS)


def test_attempts_of_a_decision_have_different_random_numbers():
    first, second = (DecisionSeed("a", attempt).build_random().random() for attempt in (0, 1))
    assert first != second
    assert DecisionSeed("a", 1).build_random().random() == second
