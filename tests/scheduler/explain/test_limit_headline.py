# SPDX-License-Identifier: Apache-2.0
"""Headlines about hosts beyond the limit."""

import pytest

from tests.scheduler.providers import add_provider
from tests.scheduler.test_scheduler import explain
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, report, spec

pytestmark = pytest.mark.slow

#: Each GPU gives a candidate. The limit is reached before the last host.
GPUS = 8
LIMIT = {"scheduler.max_placement_results": GPUS}
BREADTH = {"placement.allocation_candidates_generation_strategy": "breadth-first"}
GPU = flavor(extra_specs={"resources1:VGPU": "1"})


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts with eight GPUs. The first host is down."""
    for name, seen in (("cn1", "2020-01-01T00:00:00Z"), ("cn2", None), ("cn3", None)):
        more = {"last_seen_up": seen} if seen else {}
        sqlite_app.post_json("/scheduler/v1/compute_nodes", [report(name, **more)])
        for number in range(GPUS):
            add_provider(sqlite_app, f"{name} gpu {number}", parent=uuid_of(name), VGPU=1)
    return sqlite_app


def test_headline_names_the_limit_and_its_advice_helps(cloud):
    explanation = explain(cloud, spec(flavor=GPU), overrides=LIMIT)
    obstacle = explanation["funnel"]["obstacle"]
    assert obstacle["name"] == "ComputeFilter"
    words = "ComputeFilter rejected the last remaining host; the limit of candidates ([scheduler]"
    assert obstacle["reason"].startswith(words)
    assert "left out 2 hosts before" in obstacle["reason"]
    assert "breadth-first" in obstacle["reason"]
    explanation = explain(cloud, spec(flavor=GPU), overrides={**LIMIT, **BREADTH})
    assert explanation["outcome"] == "selected"
