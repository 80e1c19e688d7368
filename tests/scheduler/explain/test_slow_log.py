# SPDX-License-Identifier: Apache-2.0
"""Summary of a funnel in the log line of a slow request."""

from placement_sched.scheduler.explain.funnel import funnel_summary


def test_funnel_summary_has_the_stages_that_removed_hosts():
    steps = [
        {"constraint": "resources", "before": 300, "after": 106},
        {"constraint": "required", "before": 106, "after": 106},
    ]
    filters = [
        {"name": "ComputeFilter", "before": 106, "after": 100},
        {"name": "ImagePropertiesFilter", "before": 100, "after": 100},
    ]
    funnel = {"allocation_candidates": {"steps": steps}, "filters": filters}
    assert funnel_summary(funnel) == "300 > resources 106 > ComputeFilter 100"
    assert funnel_summary({"allocation_candidates": None, "filters": []}) == ""
