# SPDX-License-Identifier: Apache-2.0
"""What operators do to services is what requests for hosts meet, at once."""

from tests.support.scheduling import instance

DISABLED = "COMPUTE_STATUS_DISABLED"


def chosen(hosts, number):
    """Return the host that is chosen for an instance, or None and why hosts are refused."""
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
    refused = [each for one in stages for each in one["rejected"]]
    return None, sorted(each["reason"] for each in refused)


def test_host_that_is_disabled_or_down_is_not_chosen(hosts):
    for number in (1, 2):
        hosts.report(number)
    hosts.change({"status": "disabled", "disabled_reason": "fan"}, host="cn1")
    assert chosen(hosts, 1) == ("cn2", ())
    hosts.change({"forced_down": True}, host="cn2")
    assert chosen(hosts, 2) == (None, ["disabled: fan", "forced down"])
    hosts.change({"status": "enabled"}, host="cn1")
    assert chosen(hosts, 2) == ("cn1", ())
    hosts.change({"status": "disabled"}, host="cn1")
    hosts.change({"forced_down": False}, host="cn2")
    assert chosen(hosts, 3) == ("cn2", ())


def test_deleted_host_is_chosen_once_it_reports_again(hosts):
    hosts.report(1)
    hosts.change({"status": "disabled"})
    hosts.remove(status=204)
    assert chosen(hosts, 1) == (None, [])
    hosts.report(1)
    assert hosts.traits() == set()
    assert chosen(hosts, 1) == ("cn1", ())


def test_new_node_of_a_disabled_host_is_marked(hosts):
    hosts.report(1, host="rack")
    hosts.change({"status": "disabled"}, host="rack")
    hosts.report(2, host="rack")
    assert hosts.traits(2) == {DISABLED}
    hosts.change({"status": "enabled"}, host="rack")
    assert (hosts.traits(1), hosts.traits(2)) == (set(), set())
