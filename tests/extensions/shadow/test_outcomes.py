# SPDX-License-Identifier: Apache-2.0
"""The verdict on a request after nova has placed it or failed."""

import json
from uuid import uuid4

import pytest

from placement_sched.extensions.shadow.evaluator import NovaCall
from placement_sched.model.decision import SHADOW
from placement_sched.model.shadow_result import (
    BOTH_NO_HOST,
    EQUAL_WEIGHT,
    FAILED,
    ONLY_OURS,
    OTHER_HOST,
    PENDING,
    SAME_HOST,
    UNKNOWN,
)
from placement_sched.store import decisions
from placement_sched.store.placement import allocations
from tests.extensions.shadow.conftest import REQUEST_ID
from tests.support.nova_clouds import build_flavor_json, build_nova_object

NO_VALID_HOST_EVENT = ("schedule_instances", "ctl", "Error", "nova.exception.NoValidHost: ...")


@pytest.fixture
def read_single_result(shadow_setup):
    """Return the result of a request after the outcomes were read once more."""

    def read_result():
        (result,) = shadow_setup.read_outcomes_and_list_results()
        return result

    return read_result


@pytest.fixture
def record_instance_in_cell0(shadow_setup, instance_uuid):
    """Let nova find no host for the instance."""

    def add_to_cell0():
        row = {"uuid": instance_uuid, "host": None, "node": None, "vm_state": "error"}
        shadow_setup.nova.cell0.add("instances", **row)
        shadow_setup.nova.api.add("instance_mappings", instance_uuid=instance_uuid, cell_id=1)

    return add_to_cell0


def test_evaluation_is_a_decision_of_kind_shadow_and_claims_nothing(
    shadow_setup, instance_uuid, database
):
    request = shadow_setup.receive_request(instance_uuid)
    with database.read() as connection:
        decision = decisions.get_by_uuid(connection, request.decision)
        assert allocations.list_by_consumers(connection, [instance_uuid]) == ()
    assert (decision.kind, decision.outcome, decision.flavor) == (SHADOW, "selected", "m1.small")
    assert decision.request_ids.request_id == REQUEST_ID
    assert [place.host for place in decision.instances] == ["cn1"]
    assert decision.funnel["allocation_candidates"]["hosts"] == 2
    assert [result.verdict for result in shadow_setup.list_results()] == [PENDING]


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("host", "verdict", "why"),
    [
        ("cn1", SAME_HOST, None),
        ("cn2", OTHER_HOST, "cn2 weighs 2.5 here. cn1 was chosen with the weight 3"),
    ],
)
def test_host_claimed_by_nova_is_compared_with_the_evaluated_host(
    shadow_setup, instance_uuid, read_single_result, host, verdict, why
):
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.claim_resources(instance_uuid, host)
    result = read_single_result()
    assert (result.verdict, result.our_host, result.nova_host) == (verdict, "cn1", host)
    assert result.detail.get("why") == why
    tally = shadow_setup.awaiting.agreement
    assert (tally.compared, tally.agreed) == (1, verdict == SAME_HOST)


def test_claimed_host_of_equal_weight_is_agreement(shadow_setup, instance_uuid, read_single_result):
    shadow_setup.add_host("cn3", free=8192)
    shadow_setup.follower.sync_all()
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.claim_resources(instance_uuid, "cn3")
    assert read_single_result().verdict == EQUAL_WEIGHT


def test_full_host_is_explained_by_the_rejecting_stage(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.claim_resources(str(uuid4()), "cn2", memory=8000)
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.claim_resources(str(uuid4()), "cn1")
    shadow_setup.nova.add_instance("cn2", uuid=instance_uuid)
    shadow_setup.record_nova_action(
        shadow_setup.nova.cells["one"],
        instance_uuid,
        ("compute__do_build_and_run_instance", "cn2", "Success", ""),
    )
    result = read_single_result()
    assert result.verdict == OTHER_HOST
    assert result.detail["why"].startswith(
        "cn2 did not pass here: resources: MEMORY_MB: 192 free of 8192, 2048 requested"
    )
    assert result.detail["rejection"] == {
        "kind": "capacity",
        "resource_class": "MEMORY_MB",
        "requested": 2048,
        "free": 192,
        "capacity": 8192,
    }


def test_no_valid_host_of_nova_agrees_with_a_funnel_without_hosts(
    shadow_setup, instance_uuid, read_single_result, record_instance_in_cell0
):
    flavor = json.loads(build_flavor_json(extra_specs={}, memory_mb=500_000))["cur"]
    shadow_setup.receive_request(instance_uuid, flavor=flavor)
    record_instance_in_cell0()
    result = read_single_result()
    assert result.verdict == BOTH_NO_HOST
    assert "MEMORY_MB" in result.detail["why"]


def test_no_valid_host_of_nova_is_disagreement_if_a_host_was_evaluated(
    shadow_setup, instance_uuid, read_single_result, record_instance_in_cell0
):
    shadow_setup.receive_request(instance_uuid)
    record_instance_in_cell0()
    result = read_single_result()
    assert (result.verdict, result.our_host, result.nova_host) == (ONLY_OURS, "cn1", None)


def test_request_for_several_instances_waits_for_all_claims(shadow_setup):
    first, second = str(uuid4()), str(uuid4())
    shadow_setup.receive_request(first, second, num_instances=2)
    shadow_setup.claim_resources(first, "cn1")
    assert {result.verdict for result in shadow_setup.read_outcomes_and_list_results()} == {PENDING}
    shadow_setup.claim_resources(second, "cn2")
    assert {result.verdict for result in shadow_setup.read_outcomes_and_list_results()} == {
        SAME_HOST
    }


def test_second_instance_is_compared_with_the_hosts_after_the_first(shadow_setup):
    uuids = str(uuid4()), str(uuid4())
    shadow_setup.receive_request(*uuids, num_instances=2)
    for instance_uuid in uuids:
        shadow_setup.claim_resources(instance_uuid, "cn1")
    first, second = shadow_setup.read_outcomes_and_list_results()
    assert (first.verdict, second.verdict) == (SAME_HOST, OTHER_HOST)
    assert second.detail["why"].startswith(
        "cn1 was not among the best after the earlier instances. cn2 was chosen"
    )


def test_host_claimed_before_the_evaluation_is_no_disagreement(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.claim_resources(instance_uuid, "cn1", memory=8000)
    shadow_setup.receive_request(instance_uuid)
    result = read_single_result()
    assert (result.verdict, result.our_host, result.nova_host) == (UNKNOWN, "cn2", "cn1")
    assert "nova had claimed for the instance before" in result.detail["why"]


def test_remaining_allocations_of_an_evacuated_instance_are_not_the_choice_of_nova(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.nova.add_instance("cn2", uuid=instance_uuid)
    shadow_setup.follower.sync_all()
    shadow_setup.claim_resources(instance_uuid, "cn2")
    shadow_setup.receive_request(instance_uuid, ignore_hosts=["cn2"])
    assert read_single_result().verdict == PENDING
    shadow_setup.claim_resources(instance_uuid, "cn1", "cn2")
    assert read_single_result().verdict == SAME_HOST


def test_allocations_restored_after_a_failed_move_are_not_the_choice_of_nova(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.nova.add_instance("cn2", uuid=instance_uuid)
    shadow_setup.follower.sync_all()
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.claim_resources(instance_uuid, "cn2")
    assert read_single_result().verdict == PENDING
    cell = shadow_setup.nova.cells["one"]
    cell.add("migrations", instance_uuid=instance_uuid, status="error", migration_type="migration")
    assert read_single_result().verdict == ONLY_OURS


def test_host_of_a_failed_attempt_is_the_choice_of_nova(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.receive_request(instance_uuid)
    cell = shadow_setup.nova.cells["one"]
    shadow_setup.nova.add_instance("cn2", uuid=instance_uuid)
    build = "compute__do_build_and_run_instance"
    shadow_setup.record_nova_action(
        cell, instance_uuid, (build, "cn1", "Error", ""), (build, "cn2", "Success", "")
    )
    result = read_single_result()
    assert (result.verdict, result.nova_host) == (SAME_HOST, "cn1")
    assert result.detail["why"] == "The attempt failed, and a later attempt was on cn2"


def test_unshelve_without_a_host_is_detected_by_its_event(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.nova.add_instance(None, uuid=instance_uuid, vm_state="shelved_offloaded")
    shadow_setup.record_nova_action(
        shadow_setup.nova.cells["one"], instance_uuid, NO_VALID_HOST_EVENT
    )
    assert read_single_result().verdict == ONLY_OURS


def test_accepted_rebuild_is_compared_by_the_current_host(
    shadow_setup, instance_uuid, read_single_result
):
    shadow_setup.nova.add_instance("cn2", uuid=instance_uuid)
    shadow_setup.follower.sync_all()
    shadow_setup.claim_resources(instance_uuid, "cn2")
    hints = {"_nova_check_type": ["rebuild"]}
    shadow_setup.receive_request(
        instance_uuid, scheduler_hints=hints, force_hosts=["cn2"], force_nodes=["cn2"]
    )
    assert read_single_result().verdict == PENDING
    event = ("rebuild_server", "ctl", "Success", "")
    shadow_setup.record_nova_action(shadow_setup.nova.cells["one"], instance_uuid, event)
    result = read_single_result()
    assert (result.verdict, result.nova_host) == (SAME_HOST, "cn2")


def test_second_request_for_an_instance_ends_the_wait_for_the_first(shadow_setup, instance_uuid):
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.receive_request(instance_uuid, ignore_hosts=["cn1"])
    shadow_setup.claim_resources(instance_uuid, "cn2")
    first, second = shadow_setup.read_outcomes_and_list_results()
    assert {first.verdict, second.verdict} == {UNKNOWN, SAME_HOST}


def test_outcome_is_unknown_after_the_deadline(shadow_setup, instance_uuid, read_single_result):
    shadow_setup.receive_request(instance_uuid)
    shadow_setup.awaiting.deadline = -1
    assert read_single_result().verdict == UNKNOWN


def test_another_shadow_process_waits_for_the_outcomes_of_pending_requests(
    shadow_setup, instance_uuid
):
    shadow_setup.receive_request(instance_uuid)
    later = type(shadow_setup)(
        shadow_setup.nova, shadow_setup.database, shadow_setup.settings, shadow_setup.follower
    )
    later.awaiting.resume()
    shadow_setup.claim_resources(instance_uuid, "cn2")
    assert [result.verdict for result in later.read_outcomes_and_list_results()] == [OTHER_HOST]
    later.close()


def test_unknown_major_version_of_request_spec_is_recorded_as_failed(
    shadow_setup, instance_uuid, caplog
):
    secret = {"transport_url": "s3cret"}
    call = NovaCall(
        spec=build_nova_object("RequestSpec", "9.0", secret), instances=(instance_uuid,)
    )
    assert shadow_setup.evaluator.evaluate(call) is None
    (result,) = shadow_setup.list_results()
    assert (result.verdict, result.instance) == (FAILED, instance_uuid)
    assert "s3cret" not in caplog.text + str(result.detail)
    assert "could not be evaluated" in caplog.text


def test_impossible_request_is_compared_as_no_valid_host(
    shadow_setup, instance_uuid, read_single_result, record_instance_in_cell0
):
    flavor = json.loads(build_flavor_json(extra_specs={"trait:CUSTOM_A": "forbidden"}))["cur"]
    shadow_setup.receive_request(
        instance_uuid, flavor=flavor, image=_build_image_that_requires_trait("CUSTOM_A")
    )
    record_instance_in_cell0()
    result = read_single_result()
    assert result.verdict == BOTH_NO_HOST
    assert "CUSTOM_A is forbidden by flavor extra spec" in result.detail["why"]


def _build_image_that_requires_trait(trait):
    properties = build_nova_object("ImageMetaProps", "1.44", {"traits_required": [trait]})
    return build_nova_object("ImageMeta", "1.8", {"properties": properties})


@pytest.mark.all_databases
def test_cell_passwords_are_not_stored(shadow_setup, instance_uuid, database):
    cell = build_nova_object(
        "CellMapping",
        "1.1",
        {
            "id": 2,
            "uuid": str(uuid4()),
            "name": "one",
            "disabled": False,
            "database_connection": "mysql+pymysql://nova:s3cret@db/nova",
            "transport_url": "rabbit://nova:s3cret@mq",
        },
    )
    destination = build_nova_object("Destination", "1.4", {"cell": cell})
    request = shadow_setup.receive_request(instance_uuid, requested_destination=destination)
    with database.read() as connection:
        decision = decisions.get_by_uuid(connection, request.decision)
    assert "s3cret" not in str(decision)
    assert "s3cret" not in str(shadow_setup.list_results())
