# SPDX-License-Identifier: Apache-2.0
"""A request is evaluated, nova places it or not, and the verdict is recorded."""

import json
from uuid import uuid4

import pytest

from placement_sched.model import shadow_result
from placement_sched.model.decision import SHADOW
from placement_sched.store import decisions
from placement_sched.store.placement import allocations
from tests.nova.shadow.conftest import REQUEST_ID
from tests.support.nova_clouds import build_flavor_json, wrap_object

NO_HOST = ("schedule_instances", "ctl", "Error", "nova.exception.NoValidHost: ...")


def only(results):
    (one,) = results
    return one


def test_evaluation_is_a_decision_of_kind_shadow_and_claims_nothing(shadowed, uuid, database):
    asked = shadowed.hear(uuid)
    with database.read() as connection:
        decision = decisions.by_uuid(connection, asked.decision)
        assert allocations.of_consumers(connection, [uuid]) == ()
    assert (decision.kind, decision.outcome, decision.flavor) == (SHADOW, "selected", "m1.small")
    assert decision.request_ids.request_id == REQUEST_ID
    assert [one.host for one in decision.places] == ["cn1"]
    assert decision.funnel["allocation_candidates"]["hosts"] == 2
    assert only(shadowed.results()).verdict == shadow_result.PENDING


@pytest.mark.all_databases
def test_host_that_nova_claims_on_is_compared_at_once(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.claim(uuid, "cn1")
    one = only(shadowed.look())
    assert (one.verdict, one.our_host, one.nova_host) == (shadow_result.SAME_HOST, "cn1", "cn1")


def test_another_host_is_explained_by_weights(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.claim(uuid, "cn2")
    one = only(shadowed.look())
    assert (one.verdict, one.our_host, one.nova_host) == (shadow_result.OTHER_HOST, "cn1", "cn2")
    assert one.detail["why"] == "cn2 weighs 2.5 here; cn1 was chosen with the weight 3"


def test_equal_hosts_agree(shadowed, uuid):
    shadowed.add_host("cn3", free=8192)
    shadowed.follower.full()
    shadowed.hear(uuid)
    shadowed.claim(uuid, "cn3")
    assert only(shadowed.look()).verdict == shadow_result.EQUAL_WEIGHT


def test_host_that_is_full_here_is_explained_by_its_stage(shadowed, uuid):
    shadowed.claim(str(uuid4()), "cn2", memory=8000)
    shadowed.hear(uuid)
    shadowed.claim(str(uuid4()), "cn1")
    shadowed.nova.add_instance("cn2", uuid=uuid)
    shadowed.act(
        shadowed.nova.cells["one"],
        uuid,
        ("compute__do_build_and_run_instance", "cn2", "Success", ""),
    )
    one = only(shadowed.look())
    assert one.verdict == shadow_result.OTHER_HOST
    assert one.detail["why"].startswith(
        "cn2 did not pass here: resources: MEMORY_MB: 192 free of 8192, 2048 requested"
    )


def test_nova_without_a_valid_host_is_compared_with_the_funnel(shadowed, uuid):
    flavor = json.loads(json.dumps(_big()))
    shadowed.hear(uuid, flavor=flavor)
    shadowed.nova.cell0.add("instances", uuid=uuid, host=None, node=None, vm_state="error")
    shadowed.nova.api.add("instance_mappings", instance_uuid=uuid, cell_id=1)
    one = only(shadowed.look())
    assert one.verdict == shadow_result.BOTH_NO_HOST
    assert "MEMORY_MB" in one.detail["why"]


def test_only_this_service_found_a_host(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.nova.cell0.add("instances", uuid=uuid, host=None, node=None, vm_state="error")
    shadowed.nova.api.add("instance_mappings", instance_uuid=uuid, cell_id=1)
    one = only(shadowed.look())
    assert (one.verdict, one.our_host, one.nova_host) == (shadow_result.ONLY_OURS, "cn1", None)


def test_request_for_several_waits_until_nova_has_claimed_for_all(shadowed):
    first, second = str(uuid4()), str(uuid4())
    shadowed.hear(first, second, num_instances=2)
    shadowed.claim(first, "cn1")
    assert {one.verdict for one in shadowed.look()} == {shadow_result.PENDING}
    shadowed.claim(second, "cn2")
    assert {one.verdict for one in shadowed.look()} == {shadow_result.SAME_HOST}


def test_second_instance_is_compared_after_the_first(shadowed):
    uuids = str(uuid4()), str(uuid4())
    shadowed.hear(*uuids, num_instances=2)
    for one in uuids:
        shadowed.claim(one, "cn1")
    first, second = shadowed.look()
    assert (first.verdict, second.verdict) == (shadow_result.SAME_HOST, shadow_result.OTHER_HOST)
    assert second.detail["why"].startswith(
        "cn1 was not among the best after the earlier instances; cn2 was chosen"
    )


def test_claim_that_came_before_the_evaluation_is_no_disagreement(shadowed, uuid):
    shadowed.claim(uuid, "cn1", memory=8000)
    shadowed.hear(uuid)
    one = only(shadowed.look())
    assert (one.verdict, one.our_host, one.nova_host) == (shadow_result.UNKNOWN, "cn2", "cn1")
    assert "nova had claimed for the instance before" in one.detail["why"]


def test_allocations_that_an_evacuated_instance_keeps_are_not_novas_choice(shadowed, uuid):
    shadowed.nova.add_instance("cn2", uuid=uuid)
    shadowed.follower.full()
    shadowed.claim(uuid, "cn2")
    shadowed.hear(uuid, ignore_hosts=["cn2"])
    assert only(shadowed.look()).verdict == shadow_result.PENDING
    shadowed.claim(uuid, "cn1", "cn2")
    assert only(shadowed.look()).verdict == shadow_result.SAME_HOST


def test_allocations_given_back_after_a_failed_move_are_not_novas_choice(shadowed, uuid):
    shadowed.nova.add_instance("cn2", uuid=uuid)
    shadowed.follower.full()
    shadowed.hear(uuid)
    shadowed.claim(uuid, "cn2")
    assert only(shadowed.look()).verdict == shadow_result.PENDING
    cell = shadowed.nova.cells["one"]
    cell.add("migrations", instance_uuid=uuid, status="error", migration_type="migration")
    assert only(shadowed.look()).verdict == shadow_result.ONLY_OURS


def test_attempt_that_failed_counts_as_novas_choice(shadowed, uuid):
    shadowed.hear(uuid)
    cell = shadowed.nova.cells["one"]
    shadowed.nova.add_instance("cn2", uuid=uuid)
    build = "compute__do_build_and_run_instance"
    shadowed.act(cell, uuid, (build, "cn1", "Error", ""), (build, "cn2", "Success", ""))
    one = only(shadowed.look())
    assert (one.verdict, one.nova_host) == (shadow_result.SAME_HOST, "cn1")
    assert one.detail["why"] == "the attempt failed, and a later attempt was on cn2"


def test_unshelve_without_a_host_is_known_by_its_event(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.nova.add_instance(None, uuid=uuid, vm_state="shelved_offloaded")
    shadowed.act(shadowed.nova.cells["one"], uuid, NO_HOST)
    assert only(shadowed.look()).verdict == shadow_result.ONLY_OURS


def test_rebuild_that_is_allowed_stays_where_it_is(shadowed, uuid):
    shadowed.nova.add_instance("cn2", uuid=uuid)
    shadowed.follower.full()
    shadowed.claim(uuid, "cn2")
    hints = {"_nova_check_type": ["rebuild"]}
    shadowed.hear(uuid, scheduler_hints=hints, force_hosts=["cn2"], force_nodes=["cn2"])
    assert only(shadowed.look()).verdict == shadow_result.PENDING
    event = ("rebuild_server", "ctl", "Success", "")
    shadowed.act(shadowed.nova.cells["one"], uuid, event)
    one = only(shadowed.look())
    assert (one.verdict, one.nova_host) == (shadow_result.SAME_HOST, "cn2")


def test_request_asked_again_for_the_same_instance_ends_the_wait_for_the_first(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.hear(uuid, ignore_hosts=["cn1"])
    shadowed.claim(uuid, "cn2")
    first, second = shadowed.look()
    assert {first.verdict, second.verdict} == {shadow_result.UNKNOWN, shadow_result.SAME_HOST}


def test_nova_that_does_nothing_is_unknown_after_the_deadline(shadowed, uuid):
    shadowed.hear(uuid)
    shadowed.awaiting.deadline = -1
    assert only(shadowed.look()).verdict == shadow_result.UNKNOWN


def test_another_process_goes_on_waiting(shadowed, uuid):
    shadowed.hear(uuid)
    later = type(shadowed)(shadowed.nova, shadowed.database, shadowed.settings, shadowed.follower)
    later.awaiting.resume()
    shadowed.claim(uuid, "cn2")
    assert only(later.look()).verdict == shadow_result.OTHER_HOST
    later.close()


def test_spec_that_is_of_an_unknown_major_version_is_recorded_as_failed(shadowed, uuid, caplog):
    from placement_sched.nova.shadow.evaluator import NovaCall

    secret = {"transport_url": "s3cret"}
    call = NovaCall(spec=wrap_object("RequestSpec", "9.0", secret), instances=(uuid,))
    assert shadowed.evaluator.evaluate(call) is None
    one = only(shadowed.results())
    assert (one.verdict, one.instance) == (shadow_result.FAILED, uuid)
    assert "s3cret" not in caplog.text + str(one.detail)
    assert "could not be evaluated" in caplog.text


def test_request_that_cannot_be_is_compared_as_one_without_a_host(shadowed, uuid):
    flavor = json.loads(build_flavor_json(extra_specs={"trait:CUSTOM_A": "forbidden"}))["cur"]
    shadowed.hear(uuid, flavor=flavor, image=_requiring("CUSTOM_A"))
    shadowed.nova.cell0.add("instances", uuid=uuid, host=None, node=None, vm_state="error")
    shadowed.nova.api.add("instance_mappings", instance_uuid=uuid, cell_id=1)
    one = only(shadowed.look())
    assert one.verdict == shadow_result.BOTH_NO_HOST
    assert "CUSTOM_A is forbidden by flavor extra spec" in one.detail["why"]


def _requiring(trait):
    properties = wrap_object("ImageMetaProps", "1.44", {"traits_required": [trait]})
    return wrap_object("ImageMeta", "1.8", {"properties": properties})


@pytest.mark.all_databases
def test_passwords_of_a_cell_are_kept_nowhere(shadowed, uuid, database):
    cell = wrap_object(
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
    destination = wrap_object("Destination", "1.4", {"cell": cell})
    asked = shadowed.hear(uuid, requested_destination=destination)
    with database.read() as connection:
        decision = decisions.by_uuid(connection, asked.decision)
    assert "s3cret" not in str(decision)
    assert "s3cret" not in str(shadowed.results())


@pytest.mark.parametrize("agrees", [True, False])
def test_agreement_is_counted(shadowed, uuid, agrees):
    shadowed.hear(uuid)
    shadowed.claim(uuid, "cn1" if agrees else "cn2")
    shadowed.look()
    assert (shadowed.awaiting.tally.compared, shadowed.awaiting.tally.agreed) == (1, agrees)


def _big():
    return json.loads(build_flavor_json(extra_specs={}, memory_mb=500_000))["cur"]
