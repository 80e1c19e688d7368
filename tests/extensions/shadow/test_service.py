# SPDX-License-Identifier: Apache-2.0
"""A nova-scheduler and its shadow place random requests alike."""

import pytest

from placement_sched.extensions.shadow import store
from placement_sched.model import shadow_result
from tests.extensions.shadow.agreement import compare_requests, run_shadow_cloud

pytestmark = pytest.mark.system

#: ``python -m tests.extensions.shadow.agreement`` runs 500 requests.
REQUEST_COUNT = 50


def test_random_requests_are_placed_like_nova_scheduler(tmp_path):
    with run_shadow_cloud(tmp_path, hosts=20, seed=18) as stage:
        report = compare_requests(stage, REQUEST_COUNT)
        with stage.database.read() as connection:
            results = list(store.list_since(connection, None))
    assert report["disagreements"] == []
    assert report["requests"] == REQUEST_COUNT
    # If nova claims before the shadow evaluates, which happens on a busy machine, the verdict is
    # unknown.
    rows = [result for result in results if result.verdict == shadow_result.UNKNOWN]
    unknown = [row.detail["why"] for row in rows]
    assert all(why.startswith("nova had claimed for the instance before") for why in unknown)
    assert report["compared"] + report["verdicts"].get(shadow_result.UNKNOWN, 0) == REQUEST_COUNT
    assert report["compared"] >= REQUEST_COUNT * 0.9
    assert report["verdicts"][shadow_result.SAME_HOST] > REQUEST_COUNT // 4
