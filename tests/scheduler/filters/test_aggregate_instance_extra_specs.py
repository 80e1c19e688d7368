# SPDX-License-Identifier: Apache-2.0
"""Host filter by extra specs and aggregate metadata, as nova 34 decides."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.aggregate_instance_extra_specs import (
    AggregateInstanceExtraSpecsFilter,
)
from tests.support.states import build_aggregates, build_host_state, build_spec, find_rejection

EXTRA_SPEC_SCOPE = "aggregate_instance_extra_specs:"


NO_AGGREGATE_MESSAGE = "requested, no aggregate of the host has it"


def find_filter_rejection(metadata, extra_specs):
    plugin = AggregateInstanceExtraSpecsFilter()
    plugin.check(build_spec(extra_specs))
    host = build_host_state(aggregates=build_aggregates(*metadata))
    return find_rejection(plugin, host, build_spec(extra_specs))


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "reason"),
    [
        ([], {}, None),
        ([{"a": "1"}], {"a": "1"}, None),
        ([{"a": "1,2"}], {"a": "2"}, None),
        ([{"a": " 1 , 2 "}], {"a": "2"}, None),
        ([{"a": "1"}, {"a": "2"}], {"a": "2"}, None),
        ([{"a": "1"}], {f"{EXTRA_SPEC_SCOPE}a": "1"}, None),
        ([{"a:b": "1"}], {f"{EXTRA_SPEC_SCOPE}a:b": "1"}, None),
        ([{"a": "5"}], {"a": ">= 3"}, None),
        ([{"a": "gpu,ssd"}], {"a": "<in> ss"}, None),
        ([{"a": "1,2"}], {"a": "!= 1"}, None),
        ([{"a": ""}], {"a": ""}, None),
        ([{"aggregate_instance_extra_specs": "1"}], {"aggregate_instance_extra_specs": "1"}, None),
        ([{}], {"x:y": "1"}, None),
        ([{"spread_by": "x"}], {"scheduler:spread_by": "rack"}, None),
        ([{"a": "1"}], {"capabilities:a": "2", "a": "1"}, None),
        ([{"a": "5,x"}], {"a": ">= 3"}, None),
        ([], {"a": "1"}, f"a: '1' {NO_AGGREGATE_MESSAGE}"),
        ([{"b": "1"}], {"a": ">= 3"}, f"a: '>= 3' {NO_AGGREGATE_MESSAGE}"),
        (
            [{"a": "1"}],
            {f"{EXTRA_SPEC_SCOPE}b": "1"},
            f"{EXTRA_SPEC_SCOPE}b: '1' {NO_AGGREGATE_MESSAGE}",
        ),
        (
            [{"a": "1"}],
            {f"{EXTRA_SPEC_SCOPE}a:b": "1"},
            f"{EXTRA_SPEC_SCOPE}a:b: '1' {NO_AGGREGATE_MESSAGE}",
        ),
        ([{"a": "1"}], {EXTRA_SPEC_SCOPE: "1"}, f"{EXTRA_SPEC_SCOPE}: '1' {NO_AGGREGATE_MESSAGE}"),
        ([{"a": "2"}, {"a": "1"}], {"a": "3"}, "a: '3' requested, 1, 2 found"),
        ([{"a": "1"}], {"a": "!= 1"}, "a: '!= 1' requested, 1 found"),
        ([{"a": "SSD"}], {"a": "ssd"}, "a: 'ssd' requested, SSD found"),
    ],
)
def test_host_passes_if_its_aggregates_match_all_extra_specs(metadata, extra_specs, reason):
    assert find_filter_rejection(metadata, extra_specs) == reason


def test_text_in_metadata_compared_with_a_number_is_an_error():
    with pytest.raises(ValueError, match="x"):
        find_filter_rejection([{"a": "2,x"}], {"a": ">= 3"})


@pytest.mark.parametrize("key", ["a", f"{EXTRA_SPEC_SCOPE}a"])
def test_invalid_number_in_extra_specs_is_an_error_before_hosts_are_filtered(key):
    with pytest.raises(Invalid, match=key):
        AggregateInstanceExtraSpecsFilter().check(build_spec({key: "== x"}))
