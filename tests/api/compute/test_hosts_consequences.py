# SPDX-License-Identifier: Apache-2.0
"""Changes of services take effect in the next selection."""

from tests.support.scheduling import make_uuid

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


def select_host_or_list_rejection_reasons(host_api, number):
    """Return the selected host and no reasons, or None and the reasons of the rejections."""
    flavor = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}
    spec = {"project_id": "shop", "flavor": flavor, "instance_uuids": [make_uuid(number)]}
    response = host_api.app.post_json(
        "/scheduler/v1/select_destinations", {"request_spec": spec}, status="*"
    )
    if response.status_int == 200:
        return response.json["selections"][0][0]["service_host"], ()
    (error,) = response.json["errors"]
    funnel = error["funnel"]
    stages = (*funnel["allocation_candidates"]["steps"], *funnel["filters"])
    rejections = [each for stage in stages for each in stage["rejected"]]
    return None, sorted(each["reason"] for each in rejections)


def test_disabled_or_down_host_is_not_selected(host_api):
    for number in (1, 2):
        host_api.report_host(number)
    host_api.change_service({"status": "disabled", "disabled_reason": "fan"}, host="cn1")
    assert select_host_or_list_rejection_reasons(host_api, 1) == ("cn2", ())
    host_api.change_service({"forced_down": True}, host="cn2")
    assert select_host_or_list_rejection_reasons(host_api, 2) == (
        None,
        ["disabled: fan", "forced down"],
    )
    host_api.change_service({"status": "enabled"}, host="cn1")
    assert select_host_or_list_rejection_reasons(host_api, 2) == ("cn1", ())
    host_api.change_service({"status": "disabled"}, host="cn1")
    host_api.change_service({"forced_down": False}, host="cn2")
    assert select_host_or_list_rejection_reasons(host_api, 3) == ("cn2", ())


def test_deleted_host_is_selected_after_a_new_report(host_api):
    host_api.report_host(1)
    host_api.change_service({"status": "disabled"})
    host_api.delete_service(status=204)
    assert select_host_or_list_rejection_reasons(host_api, 1) == (None, [])
    host_api.report_host(1)
    assert host_api.read_traits() == set()
    assert select_host_or_list_rejection_reasons(host_api, 1) == ("cn1", ())


def test_new_node_of_a_disabled_host_has_the_disabled_trait(host_api):
    host_api.report_host(1, host="rack")
    host_api.change_service({"status": "disabled"}, host="rack")
    host_api.report_host(2, host="rack")
    assert host_api.read_traits(2) == {DISABLED_TRAIT}
    host_api.change_service({"status": "enabled"}, host="rack")
    assert (host_api.read_traits(1), host_api.read_traits(2)) == (set(), set())
