# SPDX-License-Identifier: Apache-2.0
"""Host filters by the number of instances and of disk operations, as nova 34 decides."""

import logging

import pytest

from placement_sched.scheduler.filters.io_ops_filter import AggregateIoOpsFilter, IoOpsFilter
from placement_sched.scheduler.filters.num_instances_filter import (
    AggregateNumInstancesFilter,
    NumInstancesFilter,
)
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_settings,
    build_spec,
    find_rejection,
)

#: The filters with their option, the attribute of host states, and the reason.
MAX_INSTANCES_FILTER_FACTS = (
    "max_instances_per_host",
    "num_instances",
    "{} instances there, the maximum is {}",
)
MAX_IO_OPS_FILTER_FACTS = (
    "max_io_ops_per_host",
    "num_io_ops",
    "{} instances busy with disks, the maximum is {}",
)
parametrize_limit_filters = pytest.mark.parametrize(
    ("kind", "facts"),
    [(NumInstancesFilter, MAX_INSTANCES_FILTER_FACTS), (IoOpsFilter, MAX_IO_OPS_FILTER_FACTS)],
)
parametrize_aggregate_limit_filters = pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (AggregateNumInstancesFilter, MAX_INSTANCES_FILTER_FACTS),
        (AggregateIoOpsFilter, MAX_IO_OPS_FILTER_FACTS),
    ],
)


def find_filter_rejection(kind, facts, number, *metadata, maximum=None):
    option, attribute, _ = facts
    options = {} if maximum is None else {f"filter_scheduler__{option}": maximum}
    host = build_host_state(**{attribute: number}, aggregates=build_aggregates(*metadata))
    return find_rejection(kind.with_settings(build_settings(**options)), host)


@parametrize_limit_filters
@pytest.mark.parametrize(
    ("number", "maximum", "is_rejected"), [(0, 1, False), (4, 5, False), (5, 5, True), (6, 5, True)]
)
def test_host_at_the_maximum_of_instances_or_io_operations_is_rejected(
    kind, facts, number, maximum, is_rejected
):
    reason = facts[2].format(number, maximum)
    assert find_filter_rejection(kind, facts, number, maximum=maximum) == (
        reason if is_rejected else None
    )


@parametrize_limit_filters
def test_fewer_instances_or_a_larger_maximum_are_suggested(kind, facts):
    option, attribute, _ = facts
    plugin = kind.with_settings(build_settings(**{f"filter_scheduler__{option}": 5}))
    fewer, larger = plugin.suggested_changes(build_host_state(**{attribute: 7}), build_spec())
    assert (fewer.action, fewer.values) == ("remove_instances", {"instances": 3})
    assert fewer.host == {attribute: 4}
    assert find_filter_rejection(kind, facts, 4, maximum=5) is None
    assert (larger.action, larger.values) == ("raise_option", {"option": option, "value": 8})
    assert find_filter_rejection(kind, facts, 7, maximum=8) is None


@parametrize_aggregate_limit_filters
def test_larger_maximum_is_suggested_in_aggregates_that_set_it(kind, facts):
    option, attribute, _ = facts
    plugin = kind.with_settings(build_settings(**{f"filter_scheduler__{option}": 5}))
    host = build_host_state(**{attribute: 7}, aggregates=build_aggregates({option: "6"}))
    *_, larger = plugin.suggested_changes(host, build_spec())
    assert (larger.action, larger.values) == ("tag_aggregate", {"key": option, "value": 8})
    assert larger.words == f"raise {option} to 8 in the metadata of the host's aggregates"
    *_, larger = plugin.suggested_changes(build_host_state(**{attribute: 7}), build_spec())
    assert larger.action == "raise_option"


@parametrize_aggregate_limit_filters
def test_fewer_instances_are_not_suggested_if_the_maximum_is_zero(kind, facts):
    host = build_host_state(aggregates=build_aggregates({facts[0]: "0"}))
    (larger,) = kind.with_settings(build_settings()).suggested_changes(host, build_spec())
    assert larger.values == {"key": facts[0], "value": 1}


def test_earlier_instances_count_towards_the_default_maximum_of_instances():
    reason = "50 instances there, the maximum is 50"
    assert find_filter_rejection(NumInstancesFilter, MAX_INSTANCES_FILTER_FACTS, 49) is None
    assert find_filter_rejection(NumInstancesFilter, MAX_INSTANCES_FILTER_FACTS, 50) == reason
    # Earlier instances of the request count.
    plugin = NumInstancesFilter.with_settings(build_settings())
    host = build_host_state(num_instances=49)
    assert find_rejection(plugin, host) is None
    host.consume_from_request(build_spec())
    assert find_rejection(plugin, host) == reason


@parametrize_aggregate_limit_filters
@pytest.mark.parametrize(("values", "maximum"), [((), 6), (("10", "9"), 9), (("0",), 0)])
def test_smallest_maximum_of_the_host_aggregates_is_used(kind, facts, values, maximum):
    metadata = [{facts[0]: value} for value in values]
    assert find_filter_rejection(kind, facts, maximum - 1, *metadata, maximum=6) is None
    reason = facts[2].format(maximum, maximum)
    assert find_filter_rejection(kind, facts, maximum, *metadata, maximum=6) == reason


@parametrize_aggregate_limit_filters
def test_invalid_maximum_of_an_aggregate_is_ignored_and_logged(kind, facts, caplog):
    metadata = [{facts[0]: "few"}, {facts[0]: "12"}]
    with caplog.at_level(logging.WARNING):
        assert find_filter_rejection(kind, facts, 6, *metadata, maximum=6) == facts[2].format(6, 6)
    assert facts[0] in caplog.text
