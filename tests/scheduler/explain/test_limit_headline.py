# SPDX-License-Identifier: Apache-2.0
"""A headline says that the limit of candidates left out hosts that may fit."""

import pytest

from tests.scheduler.test_scheduler import explain
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

#: Equal GPUs of each host: as many candidates, of which the limit takes those of the first hosts.
GPUS = 8
LIMIT = {"scheduler.max_placement_results": GPUS}
BREADTH = {"placement.allocation_candidates_generation_strategy": "breadth-first"}
GPU = flavor(extra_specs={"resources1:VGPU": "1"})


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts with eight GPUs; the first has stopped reporting."""
    for name, seen in (("cn1", "2020-01-01T00:00:00Z"), ("cn2", None), ("cn3", None)):
        more = {"last_seen_up": seen} if seen else {}
        sqlite_app.post_json("/scheduler/v1/compute_nodes", [report(name, **more)])
        for number in range(GPUS):
            gpu = uuid_of(f"{name} gpu {number}")
            body = {"uuid": gpu, "name": gpu, "parent_provider_uuid": uuid_of(name)}
            providers = "/placement/resource_providers"
            sqlite_app.post_json(providers, body, headers=LATEST_HEADERS)
            body = {"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 1}}}
            sqlite_app.put_json(f"{providers}/{gpu}/inventories", body, headers=LATEST_HEADERS)
    return sqlite_app


def test_headline_names_the_limit_that_left_out_hosts(cloud):
    explanation = explain(cloud, spec(flavor=GPU), overrides=LIMIT)
    obstacle = explanation["funnel"]["obstacle"]
    assert obstacle["name"] == "ComputeFilter"
    words = "ComputeFilter rejected the last remaining host; the limit of candidates ([scheduler]"
    assert obstacle["reason"].startswith(words)
    assert "left out 2 hosts before" in obstacle["reason"]
    assert "breadth-first" in obstacle["reason"]


def test_advice_of_the_headline_helps(cloud):
    explanation = explain(cloud, spec(flavor=GPU), overrides={**LIMIT, **BREADTH})
    assert explanation["outcome"] == "selected"
