# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies that only aggregates name, such as empty and invalid sections."""

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.support.scheduling import instance, report, spec

HINT = {"scheduler_hints": {"sched_policy": "spread"}}


@pytest.fixture
def make_cloud(tmp_path, sqlite_url, make_app, monkeypatch):
    """Return a function that makes an application on a shared database."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)

    def build_cloud(text):
        file = tmp_path / "a.conf"
        file.write_text(text)
        return make_app(read_settings([str(file)], make_full_conf()))

    return build_cloud


def create_policy_aggregate(app, *hosts, policy="spread"):
    """Report three hosts, and add ``hosts`` to an aggregate with a policy."""
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2, 3)])
    aggregate = app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": policy}}).json
    action = f"/compute/v2.1/os-aggregates/{aggregate['aggregate']['id']}/action"
    app.post_json(action, {"set_metadata": {"metadata": {"sched_policy": policy}}})
    for host in hosts:
        app.post_json(action, {"add_host": {"host": host}})
    return app


def explain_request(app, **fields):
    body = {"request_spec": spec(instance(1), **fields)}
    answer = app.post_json("/scheduler/v1/explain", body).json
    return answer, sorted(host["host"] for host in answer["hosts"])


@pytest.mark.parametrize("section", ["[spread]\n", "[spread]\nhost_subset_size = 2\n"])
def test_section_named_by_an_aggregate_is_a_policy(make_cloud, section):
    answer, hosts = explain_request(create_policy_aggregate(make_cloud(section), "cn1"), **HINT)
    assert (answer["policy"], hosts) == ("spread", ["cn1"])


def test_unused_invalid_policy_is_explained_and_logged(make_cloud, caplog):
    create_policy_aggregate(make_cloud("[spread]\nhost_subset_size = 2\n"), "cn1")
    answer, hosts = explain_request(make_cloud("[spread]\nhost_subset_size = two\n"), **HINT)
    assert (answer["policy"], hosts) == ("default", ["cn1", "cn2", "cn3"])
    outcomes = [selector["outcome"] for selector in answer["funnel"]["policy"]["selectors"]]
    (why,) = [outcome for outcome in outcomes if outcome.startswith("it cannot be used: ")]
    assert "a.conf:2" in why
    assert "'two' is not an integer" in why
    assert "(spread) names policy 'spread'" in caplog.text


def test_default_requests_avoid_aggregates_of_invalid_policies(make_cloud):
    create_policy_aggregate(make_cloud("[spread]\nhost_subset_size = 2\n"), "cn1")
    avoiding = "[scheduler]\ndefault_policy_avoids_policy_aggregates = true\n"
    app = make_cloud(f"{avoiding}[spread]\nhost_subset_size = two\n")
    assert explain_request(app)[1] == ["cn2", "cn3"]


def test_default_requests_use_aggregates_of_the_default_policy(make_cloud):
    avoiding = "[scheduler]\ndefault_policy_avoids_policy_aggregates = true\n"
    app = create_policy_aggregate(make_cloud(f"{avoiding}[spread]\nhost_subset_size = 2\n"), "cn1")
    assert explain_request(app)[1] == ["cn2", "cn3"]
    create_policy_aggregate(app, "cn2", policy="default")
    assert explain_request(app)[1] == ["cn2", "cn3"]


@pytest.mark.parametrize("name", ["ram_weight_multiplier", "host_subset_size", "service_down_time"])
def test_empty_number_makes_the_policy_invalid(make_cloud, name):
    create_policy_aggregate(make_cloud("[spread]\nhost_subset_size = 2\n"), "cn1")
    answer, _ = explain_request(make_cloud(f"[spread]\n{name} =\n"), **HINT)
    assert answer["policy"] == "default"


def test_empty_allocation_ratio_is_unset(make_cloud):
    app = create_policy_aggregate(make_cloud("[spread]\ncpu_allocation_ratio =\n"), "cn1")
    assert explain_request(app, **HINT)[1] == ["cn1"]


def test_empty_override_is_400(make_cloud):
    app = make_cloud("")
    body = {"request_spec": spec(), "overrides": {"filter_scheduler.ram_weight_multiplier": ""}}
    (error,) = app.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert "an empty text is not a number" in error["detail"]
