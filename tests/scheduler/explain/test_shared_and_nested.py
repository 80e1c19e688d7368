# SPDX-License-Identifier: Apache-2.0
"""Reasons and advice about shared and nested providers."""

import pytest

from tests.scheduler.test_scheduler import explain
from tests.support.fleets import load_fleet
from tests.support.scheduling import flavor, spec

pytestmark = pytest.mark.slow

SEEN = 'last_seen_up: "2099-01-01T00:00:00Z"'
SIZE = f"vcpus: 4, memory_mb: 8192, {SEEN}"
SHARED = "00000000-0000-4000-8000-000000000001"
ZONE, LICENSED = "00000000-0000-4000-8000-0000000000a1", "00000000-0000-4000-8000-0000000000a2"
#: cn1 is in az1. Its pool of disk is in no zone.
POOL = f"""
hosts:
- {{host: cn1, {SIZE}, local_gb: 0, provider_aggregates: [{SHARED}, {ZONE}]}}
- {{host: cn2, {SIZE}, local_gb: 0, provider_aggregates: [{SHARED}]}}
providers:
- name: pool
  inventories: {{DISK_GB: {{total: 100}}}}
  traits: [MISC_SHARES_VIA_AGGREGATE]
  aggregates: [{SHARED}]
aggregates:
- {{name: az1, uuid: {ZONE}, availability_zone: az1, hosts: cn1}}
"""
#: cn1 has a trait, its children do not. It is in an aggregate for licensed requests.
TREE = f"""
traits: [CUSTOM_OLD, CUSTOM_WIN]
hosts:
- host: cn1
  vcpus: 4
  memory_mb: 8192
  local_gb: 100
  {SEEN}
  traits: [CUSTOM_OLD]
  providers:
  - {{name: gpu0, inventories: {{VGPU: {{total: 1}}}}}}
  - {{name: gpu1, inventories: {{VGPU: {{total: 1}}}}}}
aggregates:
- {{name: lic, uuid: {LICENSED}, metadata: {{"trait:CUSTOM_WIN": required}}, hosts: cn1}}
"""
FLAT = f"""
traits: [CUSTOM_WIN]
hosts:
- {{host: cn1, {SIZE}, local_gb: 100}}
aggregates:
- {{name: lic, uuid: {LICENSED}, metadata: {{"trait:CUSTOM_WIN": required}}, hosts: cn1}}
"""
GRANULAR = f"""
traits: [CUSTOM_FAST]
hosts:
- host: cn1
  vcpus: 4
  memory_mb: 8192
  local_gb: 100
  {SEEN}
  providers:
  - {{name: child, inventories: {{SRIOV_NET_VF: {{total: 4}}}}, traits: [CUSTOM_FAST]}}
"""
FORBIDDING = {"scheduler.enable_forbidden_aggregates_filter": True}


def small_flavor(disk=1, **extra_specs):
    return flavor(vcpus=1, memory_mb=512, root_gb=disk, extra_specs=extra_specs)


def verdict_on(app, fleet, request, **more):
    load_fleet(app, fleet)
    return explain(app, request, hosts=["cn1"], **more)["verdicts"][0]


def text_of(verdict):
    return "; ".join(reason["reason"] for reason in verdict["reasons"])


def advice_of(verdict):
    changes = [change for reason in verdict["reasons"] for change in reason.get("changes", ())]
    return "; ".join(change["words"] for change in changes)


def test_reason_names_the_pool_outside_the_zone(sqlite_app):
    request = spec(flavor=small_flavor(10), availability_zone="az1")
    verdict = verdict_on(sqlite_app, POOL, request)
    assert "pool" in text_of(verdict)
    assert "each of" not in text_of(verdict)
    assert "add it to aggregate az1" not in advice_of(verdict)


@pytest.mark.parametrize(
    ("extra_specs", "overrides"),
    [({"trait:CUSTOM_OLD": "forbidden"}, {}), ({}, FORBIDDING)],
    ids=["trait", "aggregate"],
)
def test_forbidden_trait_or_aggregate_is_that_of_the_host(sqlite_app, extra_specs, overrides):
    request = spec(flavor=small_flavor(**{"resources:VGPU": "1"}, **extra_specs))
    verdict = verdict_on(sqlite_app, TREE, request, overrides=overrides)
    assert "each of" not in text_of(verdict)


def test_suggestion_is_evaluated_with_the_request_filters(sqlite_app):
    load_fleet(sqlite_app, FLAT)
    request = spec(flavor=small_flavor(**{"trait:CUSTOM_WIN": "required"}))
    explanation = explain(sqlite_app, request, overrides=FORBIDDING)
    words = [entry["words"] for entry in explanation["funnel"].get("would_fit", ())]
    assert "cn1 would fit without trait CUSTOM_WIN" not in words


def test_advice_for_a_group_names_the_provider(sqlite_app):
    request = spec(
        flavor=small_flavor(**{"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required"})
    )
    words = advice_of(verdict_on(sqlite_app, GRANULAR, request))
    assert "child" in words or "CUSTOM_FAST" in words


def test_pools_are_not_hosts(sqlite_app):
    load_fleet(sqlite_app, POOL)
    steps = explain(sqlite_app, spec(flavor=small_flavor(10)))["funnel"]["allocation_candidates"][
        "steps"
    ]
    assert steps[0]["before"] == 2
    explanation = explain(sqlite_app, spec(flavor=small_flavor(10), force_hosts=["cn2"]))
    steps = explanation["funnel"]["allocation_candidates"]["steps"]
    (step,) = [step for step in steps if step["constraint"] == "in_tree"]
    assert [rejection["reason"] for rejection in step["rejected"]] == [
        "not in the tree of cn2",
        "pool: not in the tree of cn2",
    ]
