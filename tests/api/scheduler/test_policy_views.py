# SPDX-License-Identifier: Apache-2.0
"""Policies in the scheduler API."""

import json

import pytest

from tests.support.states import read_settings_text

POLICIES_PATH = "/scheduler/v1/policies"

POLICIES_CONFIG_TEXT = """[DEFAULT]
cpu_allocation_ratio = 4.0
scheduler_host_subset_size = 3
[scheduler]
policies = dense, sparse, wrong
json_config_location = {folder}/options.json
[dense]
cpu_allocation_ratio = 8.0
max_attempts = 2
enabled_filters = ComputeFilter
[sparse]
cpu_allocation_ratio = 1.0
[wrong]
ram_wieght_multiplier = 1.0
"""


@pytest.fixture
def make_cloud(tmp_path, sqlite_url, make_app, monkeypatch):
    """Return a function that creates an application with a configuration file."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    monkeypatch.setenv("OS_SCHEDULER__MAX_ATTEMPTS", "5")

    def build_cloud(text=POLICIES_CONFIG_TEXT):
        (tmp_path / "options.json").write_text(json.dumps({"disk_weight_multiplier": 2.0}))
        return make_app(read_settings_text(tmp_path, text.format(folder=tmp_path)))

    return build_cloud


CONFIG_WITHOUT_INVALID_POLICY = POLICIES_CONFIG_TEXT.replace(", wrong", "")
CONFIG_WITHOUT_POLICIES = POLICIES_CONFIG_TEXT.replace("policies = dense, sparse, wrong", "")


@pytest.fixture
def cloud(make_cloud):
    return make_cloud(CONFIG_WITHOUT_INVALID_POLICY)


def add_aggregate(app, name, policy):
    aggregate = app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": name}}).json
    number = aggregate["aggregate"]["id"]
    body = {"set_metadata": {"metadata": {"sched_policy": policy}}}
    app.post_json(f"/compute/v2.1/os-aggregates/{number}/action", body)
    return number


def test_policy_lists_its_filters_weighers_and_request_filters(make_cloud):
    text = CONFIG_WITHOUT_INVALID_POLICY.replace(
        "[scheduler]\n", "[scheduler]\npolicy_selection = tenant, hint\n"
    )
    text = text.replace(
        "[sparse]\n",
        "[sparse]\nram_weight_multiplier = -2.0\nimage_metadata_prefilter = true\n"
        "enabled_filters = NumInstancesFilter, ComputeFilter\n",
    )
    response = make_cloud(text).get(POLICIES_PATH).json
    assert response["selectors"] == ["tenant", "hint"]
    default, _, sparse = response["policies"]
    assert sparse["filters"] == ["NumInstancesFilter", "ComputeFilter"]
    assert default["filters"][0] == "ComputeFilter"
    assert {"name": "RAMWeigher", "multiplier": -2.0} in sparse["weighers"]
    assert {"name": "RAMWeigher", "multiplier": 1.0} in default["weighers"]
    more = {*sparse["request_filters"]} - {*default["request_filters"]}
    assert more == {"transform_image_metadata"}


def read_policy_option(app, policy, name):
    return app.get(f"{POLICIES_PATH}/{policy}").json["options"][name]


def test_policies_are_listed_and_read_one_by_one(cloud):
    policies = cloud.get(POLICIES_PATH).json["policies"]
    assert [policy["name"] for policy in policies] == ["default", "dense", "sparse"]
    assert all(policy["usable"] and policy["error"] is None for policy in policies)
    assert [cloud.get(f"{POLICIES_PATH}/{policy['name']}").json for policy in policies] == policies
    assert cloud.get(f"{POLICIES_PATH}/DENSE").json == policies[1]
    options = policies[0]["options"]
    assert not {"placement_database.connection", "DEFAULT.config_file"} & options.keys()
    assert "filter_scheduler.weight_classes" in options
    error = cloud.get(f"{POLICIES_PATH}/none", status=404).json["errors"][0]
    assert error["detail"] == "there is no policy 'none'. There are: default, dense, sparse"
    assert cloud.get(f"{POLICIES_PATH}/api", status=404)


def test_policy_lists_its_aggregates(cloud):
    number = add_aggregate(cloud, "racks-1", "Dense")
    (aggregate,) = cloud.get(f"{POLICIES_PATH}/dense").json["aggregates"]
    assert (aggregate["id"], aggregate["name"]) == (number, "racks-1")
    assert cloud.get(f"{POLICIES_PATH}/sparse").json["aggregates"] == []


#: Policy and option, with value, source and place.
EXPECTED_POLICY_OPTIONS = {
    ("default", "DEFAULT.cpu_allocation_ratio"): (4.0, "configuration", "nova.conf:2"),
    ("dense", "DEFAULT.cpu_allocation_ratio"): (8.0, "policy", "nova.conf:8"),
    ("sparse", "DEFAULT.cpu_allocation_ratio"): (1.0, "policy", "nova.conf:12"),
    # By an older name, and an option that is not overridden.
    ("dense", "filter_scheduler.host_subset_size"): (3, "configuration", "nova.conf:3"),
    ("default", "scheduler.max_attempts"): (5, "environment", "OS_SCHEDULER__MAX_ATTEMPTS"),
    ("dense", "scheduler.max_attempts"): (2, "policy", "nova.conf:9"),
    ("dense", "filter_scheduler.enabled_filters"): (["ComputeFilter"], "policy", "nova.conf:10"),
    ("dense", "filter_scheduler.ram_weight_multiplier"): (1.0, "default", None),
    ("sparse", "filter_scheduler.disk_weight_multiplier"): (2.0, "options_file", "options.json"),
}


def test_policy_options_have_their_value_source_and_place(cloud, tmp_path):
    for (policy, name), expected in EXPECTED_POLICY_OPTIONS.items():
        result = read_policy_option(cloud, policy, name)
        place = result["place"] and result["place"].removeprefix(f"{tmp_path}/")
        assert (result["value"], result["source"], place) == expected, (policy, name)


def test_policies_named_by_aggregates_are_listed_without_the_policies_option(make_cloud):
    app = make_cloud(CONFIG_WITHOUT_POLICIES)
    assert [policy["name"] for policy in app.get(POLICIES_PATH).json["policies"]] == ["default"]
    add_aggregate(app, "racks-1", "sparse")
    policies = app.get(POLICIES_PATH).json["policies"]
    assert [policy["name"] for policy in policies] == ["default", "sparse"]
    assert policies[1]["options"]["DEFAULT.cpu_allocation_ratio"]["value"] == 1.0
    # A section without an aggregate can be read.
    assert read_policy_option(app, "dense", "DEFAULT.cpu_allocation_ratio")["value"] == 8.0


def test_invalid_policy_has_its_error(make_cloud):
    add_aggregate(
        make_cloud(CONFIG_WITHOUT_POLICIES.replace("wieght", "weight")), "racks-2", "wrong"
    )
    app = make_cloud(CONFIG_WITHOUT_POLICIES)
    assert [policy["name"] for policy in app.get(POLICIES_PATH).json["policies"]] == [
        "default",
        "wrong",
    ]
    policy = app.get(f"{POLICIES_PATH}/wrong").json
    assert not policy["usable"]
    assert (policy["filters"], policy["weighers"], policy["options"]) == ([], [], {})
    assert "nova.conf:14: [wrong]: there is no option ram_wieght_multiplier" in policy["error"]


@pytest.mark.parametrize("path", [POLICIES_PATH, f"{POLICIES_PATH}/default"])
def test_policies_need_the_role_of_an_operator(cloud, path):
    cloud.get(path, headers={"X-Auth-Token": "u:p"}, status=403)


OPTION_PLUGIN_TEXT = """
from oslo_config import cfg
from placement_sched.scheduler.filters import BaseHostFilter


class Filter(BaseHostFilter):
    options = (("acme_secret", cfg.StrOpt("key", default="x", secret=True)),)

    def host_passes(self, host_state, spec_obj):
        return True
"""


def test_secret_options_of_policies_are_not_shown(make_cloud, tmp_path, monkeypatch):
    (tmp_path / "acme_secrets.py").write_text(OPTION_PLUGIN_TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    app = make_cloud(
        "[filter_scheduler]\navailable_filters = acme_secrets.Filter\nenabled_filters = Filter\n"
        "[acme_secret]\nkey = swordfish\n[scheduler]\npolicies = dense\n[dense]\nkey = trout\n"
    )
    assert read_policy_option(app, "dense", "acme_secret.key")["value"] == "***"
    response = app.get(POLICIES_PATH).text
    assert "swordfish" not in response
    assert "trout" not in response
