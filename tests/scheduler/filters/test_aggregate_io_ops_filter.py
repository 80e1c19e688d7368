"""AggregateIoOpsFilter, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_io_ops_filter import AggregateIoOpsFilter
from tests.scheduler.states import a_host, a_spec, aggregates, settings_with

KEY = "max_io_ops_per_host"


def refusal(*metadata, busy=5):
    settings = settings_with(filter_scheduler__max_io_ops_per_host=6)
    plugin = AggregateIoOpsFilter.with_settings(settings)
    host = a_host(num_io_ops=busy, aggregates=aggregates(*metadata))
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
    assert refusal(*metadata, busy=most - 1) is None
    told = f"{most} instances busy with disks, the maximum is {most}"
    assert refusal(*metadata, busy=most) == told


@pytest.mark.parametrize("value", ["few", "3.5", "3,4", ""])
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(value, caplog):
    with caplog.at_level(logging.WARNING):
        told = refusal({KEY: value}, {KEY: "12"}, busy=6)
    assert told == "6 instances busy with disks, the maximum is 6"
    assert KEY in caplog.text
