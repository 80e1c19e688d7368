"""AggregateNumInstancesFilter, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_num_instances_filter import (
    AggregateNumInstancesFilter,
)
from tests.scheduler.states import a_host, a_spec, aggregates, settings_with

KEY = "max_instances_per_host"


def refusal(*metadata, there=5):
    settings = settings_with(filter_scheduler__max_instances_per_host=6)
    plugin = AggregateNumInstancesFilter.with_settings(settings)
    host = a_host(num_instances=there, aggregates=aggregates(*metadata))
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("metadata", "most"),
    [
        ([], 6),
        ([{"other": "1"}], 6),
        ([{KEY: "12"}], 12),
        ([{KEY: "3"}], 3),
        ([{KEY: "10"}, {KEY: "9"}], 9),
        ([{KEY: "0"}], 0),
    ],
)
def test_smallest_maximum_of_the_aggregates_counts(metadata, most):
    assert refusal(*metadata, there=most - 1) is None
    assert refusal(*metadata, there=most) == f"{most} instances there, the maximum is {most}"


@pytest.mark.parametrize("value", ["few", "3.5", "3,4", ""])
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(value, caplog):
    with caplog.at_level(logging.WARNING):
        told = refusal({KEY: value}, {KEY: "12"}, there=6)
    assert told == "6 instances there, the maximum is 6"
    assert KEY in caplog.text
