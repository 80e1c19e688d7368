# SPDX-License-Identifier: Apache-2.0
"""Limits of requests for capacity and plans."""

import json

import pytest

from placement_sched.extensions.what_if.capacity import report as report_module
from tests.support.large_bodies import build_names, post_body
from tests.support.scheduling import make_flavor, make_report, make_spec


@pytest.fixture
def cloud_app(sqlite_app):
    """A service with two hosts that fit many small instances."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    return sqlite_app


def test_capacity_request_has_at_most_30_flavors(cloud_app):
    body = {"request_spec": {}, "flavors": [make_flavor(name=f"f{n}") for n in range(30)]}
    assert post_body(cloud_app, "capacity", body)[0] == 200
    body["flavors"].append(make_flavor(name="more"))
    status, text = post_body(cloud_app, "capacity", body)
    assert status == 400
    assert "is too long: at most 30 items (at $.flavors)" in text


def test_plan_has_at_most_30_flavors(cloud_app):
    # No flavor is stored, so a list within the limit is rejected for that reason.
    assert (
        "'f0'"
        in post_body(cloud_app, "plan", {"changes": [], "flavors": [f"f{n}" for n in range(30)]})[1]
    )
    status, text = post_body(
        cloud_app, "plan", {"changes": [], "flavors": [f"f{n}" for n in range(31)]}
    )
    assert status == 400
    assert "is too long: at most 30 items (at $.flavors)" in text


def test_overridden_option_of_a_capacity_request_has_at_most_1000_entries(cloud_app):
    option, body = "filter_scheduler.isolated_hosts", {"request_spec": make_spec()}
    overrides = {option: build_names(1000)}
    assert post_body(cloud_app, "capacity", {**body, "overrides": overrides})[0] == 200
    overrides[option].append("more")
    status, text = post_body(cloud_app, "capacity", {**body, "overrides": overrides})
    assert status == 400
    assert f"at most 1000 items (at $.overrides['{option}'])" in text


def test_capacity_of_equal_flavors_in_a_request_is_computed_once(cloud_app, monkeypatch):
    counted = []
    count = report_module.count_capacity
    monkeypatch.setattr(
        report_module, "count_capacity", lambda *a, **k: counted.append(1) or count(*a, **k)
    )
    same = [make_flavor(name="same")] * 3 + [make_flavor(name="other")]
    capacities = json.loads(
        post_body(cloud_app, "capacity", {"request_spec": {}, "flavors": same})[1]
    )["flavors"]
    assert [each["flavor"] for each in capacities] == ["same", "same", "same", "other"]
    assert capacities[0] == capacities[1] == capacities[2]
    assert len(counted) == 2
