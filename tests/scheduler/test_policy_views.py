# SPDX-License-Identifier: Apache-2.0
"""Policies as the scheduler API shows them."""

import json

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings

POLICIES = "/scheduler/v1/policies"

CONF = """[DEFAULT]
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
    """Give a function that makes an application configured by a file of this text."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    monkeypatch.setenv("OS_SCHEDULER__MAX_ATTEMPTS", "5")

    def make(text=CONF):
        (tmp_path / "options.json").write_text(json.dumps({"disk_weight_multiplier": 2.0}))
        file = tmp_path / "a.conf"
        file.write_text(text.format(folder=tmp_path))
        return make_app(read_settings([str(file)], make_full_conf()))

    return make


@pytest.fixture
def cloud(make_cloud):
    listed = CONF.replace(", wrong", "")
    return make_cloud(listed)


def tag(app, name, policy):
    made = app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": name}}).json
    number = made["aggregate"]["id"]
    body = {"set_metadata": {"metadata": {"sched_policy": policy}}}
    app.post_json(f"/compute/v2.1/os-aggregates/{number}/action", body)
    return number


def test_policies_say_by_what_a_request_chooses_one(make_cloud):
    text = CONF.replace(", wrong", "").replace(
        "[scheduler]\n", "[scheduler]\npolicy_selection = tenant, hint\n"
    )
    assert make_cloud(text).get(POLICIES).json["selectors"] == ["tenant", "hint"]


def test_a_policy_says_what_runs_under_it(make_cloud):
    text = CONF.replace(", wrong", "").replace(
        "[sparse]\n",
        "[sparse]\nram_weight_multiplier = -2.0\nimage_metadata_prefilter = true\n"
        "enabled_filters = NumInstancesFilter, ComputeFilter\n",
    )
    default, _, sparse = make_cloud(text).get(POLICIES).json["policies"]
    assert sparse["filters"] == ["NumInstancesFilter", "ComputeFilter"]
    assert default["filters"][0] == "ComputeFilter"
    assert {"name": "RAMWeigher", "multiplier": -2.0} in sparse["weighers"]
    assert {"name": "RAMWeigher", "multiplier": 1.0} in default["weighers"]
    more = {*sparse["request_filters"]} - {*default["request_filters"]}
    assert more == {"transform_image_metadata"}


def option(app, policy, name):
    return app.get(f"{POLICIES}/{policy}").json["options"][name]


def test_default_policy_comes_first_and_then_the_listed_ones(cloud):
    shown = cloud.get(POLICIES).json["policies"]
    assert [one["name"] for one in shown] == ["default", "dense", "sparse"]
    assert all(one["usable"] and one["error"] is None for one in shown)


def test_one_policy_is_shown_as_in_the_list(cloud):
    listed = cloud.get(POLICIES).json["policies"]
    assert [cloud.get(f"{POLICIES}/{one['name']}").json for one in listed] == listed
    assert cloud.get(f"{POLICIES}/DENSE").json == listed[1]


@pytest.mark.parametrize(
    ("policy", "name", "value", "source", "place"),
    [
        ("default", "DEFAULT.cpu_allocation_ratio", 4.0, "configuration", "a.conf:2"),
        ("dense", "DEFAULT.cpu_allocation_ratio", 8.0, "policy", "a.conf:8"),
        ("sparse", "DEFAULT.cpu_allocation_ratio", 1.0, "policy", "a.conf:12"),
        # By an older name, and what is not overridden.
        ("dense", "filter_scheduler.host_subset_size", 3, "configuration", "a.conf:3"),
        ("default", "scheduler.max_attempts", 5, "environment", "OS_SCHEDULER__MAX_ATTEMPTS"),
        ("dense", "scheduler.max_attempts", 2, "policy", "a.conf:9"),
        ("dense", "filter_scheduler.enabled_filters", ["ComputeFilter"], "policy", "a.conf:10"),
        ("dense", "filter_scheduler.ram_weight_multiplier", 1.0, "default", None),
    ],
)
def test_option_has_its_value_and_where_it_is_from(
    cloud, tmp_path, policy, name, value, source, place
):
    found = option(cloud, policy, name)
    answer = (found["place"] or "").replace(f"{tmp_path}/", "") or None
    assert (found["value"], found["source"], answer) == (value, source, place)


def test_file_of_options_is_shown(make_cloud, tmp_path):
    app = make_cloud(CONF.replace(", wrong", ""))
    assert option(app, "sparse", "filter_scheduler.disk_weight_multiplier") == {
        "value": 2.0,
        "source": "options_file",
        "place": f"{tmp_path}/options.json",
    }


def test_only_what_may_vary_is_shown(cloud):
    options = cloud.get(f"{POLICIES}/default").json["options"]
    assert "placement_database.connection" not in options
    assert "DEFAULT.config_file" not in options
    assert "filter_scheduler.weight_classes" in options


def test_aggregates_that_name_a_policy_are_shown(cloud):
    number = tag(cloud, "racks-1", "Dense")
    (named,) = cloud.get(f"{POLICIES}/dense").json["aggregates"]
    assert (named["id"], named["name"]) == (number, "racks-1")
    assert cloud.get(f"{POLICIES}/sparse").json["aggregates"] == []


def test_without_a_list_those_that_aggregates_name_are_shown(make_cloud):
    text = CONF.replace("policies = dense, sparse, wrong", "")
    app = make_cloud(text)
    assert [one["name"] for one in app.get(POLICIES).json["policies"]] == ["default"]
    tag(app, "racks-1", "sparse")
    shown = app.get(POLICIES).json["policies"]
    assert [one["name"] for one in shown] == ["default", "sparse"]
    assert shown[1]["options"]["DEFAULT.cpu_allocation_ratio"]["value"] == 1.0
    # A section that no aggregate names can be looked at before one does.
    assert option(app, "dense", "DEFAULT.cpu_allocation_ratio")["value"] == 8.0


def test_policy_that_cannot_be_used_is_shown_with_its_error(make_cloud):
    unlisted = CONF.replace("policies = dense, sparse, wrong", "")
    tag(make_cloud(unlisted.replace("wieght", "weight")), "racks-2", "wrong")
    app = make_cloud(unlisted)
    assert [one["name"] for one in app.get(POLICIES).json["policies"]] == ["default", "wrong"]
    shown = app.get(f"{POLICIES}/wrong").json
    assert not shown["usable"]
    assert (shown["filters"], shown["weighers"]) == ([], [])
    assert shown["options"] == {}
    assert "a.conf:14: [wrong]: there is no option ram_wieght_multiplier" in shown["error"]


def test_unknown_policy_is_404(cloud):
    error = cloud.get(f"{POLICIES}/none", status=404).json["errors"][0]
    assert error["detail"] == "there is no policy 'none'; there are: default, dense, sparse"
    assert cloud.get(f"{POLICIES}/api", status=404)


@pytest.mark.parametrize("path", [POLICIES, f"{POLICIES}/default"])
def test_not_everybody_may_see_policies(cloud, path):
    cloud.get(path, headers={"X-Auth-Token": "u:p"}, status=403)


HIDING = """
from oslo_config import cfg
from placement_sched.scheduler.filters import BaseHostFilter


class Filter(BaseHostFilter):
    options = (("acme_secret", cfg.StrOpt("key", default="x", secret=True)),)

    def host_passes(self, host_state, spec_obj):
        return True
"""


def test_secrets_are_not_shown(make_cloud, tmp_path, monkeypatch):
    (tmp_path / "acme_secrets.py").write_text(HIDING)
    monkeypatch.syspath_prepend(tmp_path)
    app = make_cloud(
        "[filter_scheduler]\navailable_filters = acme_secrets.Filter\nenabled_filters = Filter\n"
        "[acme_secret]\nkey = swordfish\n[scheduler]\npolicies = dense\n[dense]\nkey = trout\n"
    )
    assert option(app, "dense", "acme_secret.key")["value"] == "***"
    answer = app.get(POLICIES).text
    assert "swordfish" not in answer
    assert "trout" not in answer
