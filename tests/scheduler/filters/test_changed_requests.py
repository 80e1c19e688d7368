# SPDX-License-Identifier: Apache-2.0
"""Changes of requests that host filters suggest."""

from placement_sched.explain.phrases import describe_rejection
from placement_sched.scheduler.filters import (
    drop_hint,
    drop_properties,
    suggest_without_extra_specs,
)
from placement_sched.scheduler.filters.metrics_filter import MetricsFilter
from tests.support.states import build_host_state, build_settings, build_spec


def test_rejection_reason_and_suggested_change_list_only_the_first_missing_metrics():
    names = [f"m{number}" for number in range(30)]
    settings = build_settings(metrics__weight_setting=[f"{name}=1" for name in names])
    plugin = MetricsFilter.with_settings(settings)
    first = f"{', '.join(names[:10])} and 20 more"
    rejection = plugin.rejection(build_host_state(), build_spec())
    assert describe_rejection(rejection) == f"metrics not reported: {first}"
    (change,) = plugin.suggested_changes(build_host_state(), build_spec())
    assert change.words == f"make the host report {first}"
    assert change.values == {"metrics": names[:20], "more": 10}


def test_changed_request_lacks_only_the_named_hint_extra_spec_or_property():
    hints = {"query": "x", "group": "g"}
    request = build_spec({"a": "1", "b": "2"}, {"os_type": "linux"}, scheduler_hints=hints)
    assert drop_hint(request, "query").spec.scheduler_hints == {"group": ["g"]}
    change = suggest_without_extra_specs(request, ["a"], "extra_spec")
    assert change.spec.flavor.extra_specs == {"b": "2"}
    names = ["os_type", "hw_vif_model"]
    change = drop_properties(request, names, "image_property", supported=["x86_64"])
    assert change.spec.image.properties.to_dict() == {}
    assert change.values == {"keys": ["os_type"]}
