# SPDX-License-Identifier: Apache-2.0
"""Changes of services take effect in the next selection."""

from tests.support.scheduling import instance

DISABLED = "COMPUTE_STATUS_DISABLED"


def select_host(hosts, number):
    """Return the selected host and no reasons, or None and the reasons of the rejections."""
    flavor = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}
    spec = {"project_id": "shop", "flavor": flavor, "instance_uuids": [instance(number)]}
    answer = hosts.app.post_json(
        "/scheduler/v1/select_destinations", {"request_spec": spec}, status="*"
    )
    if answer.status_int == 200:
        return answer.json["selections"][0][0]["service_host"], ()
    (error,) = answer.json["errors"]
    funnel = error["funnel"]
    stages = (*funnel["allocation_candidates"]["steps"], *funnel["filters"])
    rejections = [each for stage in stages for each in stage["rejected"]]
    return None, sorted(each["reason"] for each in rejections)


def test_disabled_or_down_host_is_not_selected(hosts):
    for number in (1, 2):
        hosts.report(number)
    hosts.change_service({"status": "disabled", "disabled_reason": "fan"}, host="cn1")
    assert select_host(hosts, 1) == ("cn2", ())
    hosts.change_service({"forced_down": True}, host="cn2")
    assert select_host(hosts, 2) == (None, ["disabled: fan", "forced down"])
    hosts.change_service({"status": "enabled"}, host="cn1")
    assert select_host(hosts, 2) == ("cn1", ())
    hosts.change_service({"status": "disabled"}, host="cn1")
    hosts.change_service({"forced_down": False}, host="cn2")
    assert select_host(hosts, 3) == ("cn2", ())


def test_deleted_host_is_selected_after_a_new_report(hosts):
    hosts.report(1)
    hosts.change_service({"status": "disabled"})
    hosts.delete_service(status=204)
    assert select_host(hosts, 1) == (None, [])
    hosts.report(1)
    assert hosts.traits() == set()
    assert select_host(hosts, 1) == ("cn1", ())


def test_new_node_of_a_disabled_host_has_the_disabled_trait(hosts):
    hosts.report(1, host="rack")
    hosts.change_service({"status": "disabled"}, host="rack")
    hosts.report(2, host="rack")
    assert hosts.traits(2) == {DISABLED}
    hosts.change_service({"status": "enabled"}, host="rack")
    assert (hosts.traits(1), hosts.traits(2)) == (set(), set())
