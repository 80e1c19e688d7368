# SPDX-License-Identifier: Apache-2.0
"""AggregateInstanceExtraSpecsFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.aggregate_instance_extra_specs import (
    AggregateInstanceExtraSpecsFilter,
)
from tests.support.states import a_host, a_spec, aggregates

SCOPED = "aggregate_instance_extra_specs:"


def refusal(metadata, extra_specs):
    plugin = AggregateInstanceExtraSpecsFilter()
    plugin.check(a_spec(extra_specs))
    host = a_host(aggregates=aggregates(*metadata))
    found = plugin.refusal(host, a_spec(extra_specs))
    assert plugin.host_passes(host, a_spec(extra_specs)) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("metadata", "extra_specs"),
    [
        ([], {}),
        ([{"a": "1"}], {"a": "1"}),
        ([{"a": "1,2"}], {"a": "2"}),
        ([{"a": " 1 , 2 "}], {"a": "2"}),
        ([{"a": "1"}, {"a": "2"}], {"a": "2"}),
        ([{"a": "1"}], {f"{SCOPED}a": "1"}),
        ([{"a:b": "1"}], {f"{SCOPED}a:b": "1"}),
        ([{"a": "5"}], {"a": ">= 3"}),
        ([{"a": "gpu,ssd"}], {"a": "<in> ss"}),
        ([{"a": "1,2"}], {"a": "!= 1"}),
        ([{"a": ""}], {"a": ""}),
        ([{"aggregate_instance_extra_specs": "1"}], {"aggregate_instance_extra_specs": "1"}),
        ([{}], {"x:y": "1"}),
        ([{"a": "1"}], {"capabilities:a": "2", "a": "1"}),
        ([{"a": "5,x"}], {"a": ">= 3"}),
    ],
)
def test_host_whose_aggregates_say_what_is_asked_passes(metadata, extra_specs):
    assert refusal(metadata, extra_specs) is None


@pytest.mark.parametrize(
    ("metadata", "extra_specs", "reason"),
    [
        ([], {"a": "1"}, "a: '1' requested, no aggregate of the host has it"),
        ([{"b": "1"}], {"a": ">= 3"}, "a: '>= 3' requested, no aggregate of the host has it"),
        (
            [{"a": "1"}],
            {f"{SCOPED}b": "1"},
            f"{SCOPED}b: '1' requested, no aggregate of the host has it",
        ),
        (
            [{"a": "1"}],
            {f"{SCOPED}a:b": "1"},
            f"{SCOPED}a:b: '1' requested, no aggregate of the host has it",
        ),
        ([{"a": "1"}], {SCOPED: "1"}, f"{SCOPED}: '1' requested, no aggregate of the host has it"),
        ([{"a": "2"}, {"a": "1"}], {"a": "3"}, "a: '3' requested, 1, 2 found"),
        ([{"a": "1"}], {"a": "!= 1"}, "a: '!= 1' requested, 1 found"),
        ([{"a": "SSD"}], {"a": "ssd"}, "a: 'ssd' requested, SSD found"),
    ],
)
def test_host_whose_aggregates_say_otherwise_is_refused(metadata, extra_specs, reason):
    assert refusal(metadata, extra_specs) == reason


def test_metadata_that_cannot_be_compared_are_an_error():
    with pytest.raises(ValueError, match="x"):
        refusal([{"a": "2,x"}], {"a": ">= 3"})


@pytest.mark.parametrize("key", ["a", f"{SCOPED}a"])
def test_request_that_makes_no_sense_is_refused_before_any_host(key):
    with pytest.raises(Invalid, match=key):
        AggregateInstanceExtraSpecsFilter().check(a_spec({key: "== x"}))
