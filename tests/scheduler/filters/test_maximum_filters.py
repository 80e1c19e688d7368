"""IoOpsFilter, NumInstancesFilter and these by aggregates, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.filters.io_ops_filter import AggregateIoOpsFilter, IoOpsFilter
from placement_sched.scheduler.filters.num_instances_filter import (
    AggregateNumInstancesFilter,
    NumInstancesFilter,
)
from placement_sched.scheduler.plugins import make_full_conf
from tests.scheduler.states import a_host, a_spec, aggregates, refusal_of, settings_with

IO_OPS = ("max_io_ops_per_host", "num_io_ops", "instances busy with disks")
INSTANCES = ("max_instances_per_host", "num_instances", "instances there")
both = pytest.mark.parametrize(
    ("kind", "what", "default"), [(IoOpsFilter, IO_OPS, 8), (NumInstancesFilter, INSTANCES, 50)]
)
both_by_aggregates = pytest.mark.parametrize(
    ("kind", "what"), [(AggregateIoOpsFilter, IO_OPS), (AggregateNumInstancesFilter, INSTANCES)]
)


def refusal(kind, what, number, *metadata, most=None):
    option, counted, _ = what
    settings = settings_with(**({} if most is None else {f"filter_scheduler__{option}": most}))
    host = a_host(**{counted: number}, aggregates=aggregates(*metadata))
    return refusal_of(kind.with_settings(settings), host)


@pytest.mark.parametrize(
    ("kind", "what", "number", "most", "refused"),
    [
        (IoOpsFilter, IO_OPS, 0, 8, False),
        (IoOpsFilter, IO_OPS, 7, 8, False),
        (IoOpsFilter, IO_OPS, 8, 8, True),
        (IoOpsFilter, IO_OPS, 9, 8, True),
        (IoOpsFilter, IO_OPS, 0, 0, True),
        (NumInstancesFilter, INSTANCES, 0, 1, False),
        (NumInstancesFilter, INSTANCES, 4, 5, False),
        (NumInstancesFilter, INSTANCES, 5, 5, True),
        (NumInstancesFilter, INSTANCES, 6, 5, True),
    ],
)
def test_host_that_has_reached_the_maximum_is_refused(kind, what, number, most, refused):
    reason = f"{number} {what[2]}, the maximum is {most}"
    assert refusal(kind, what, number, most=most) == (reason if refused else None)


@both
def test_maximum_has_a_default(kind, what, default):
    assert refusal(kind, what, default - 1) is None
    assert refusal(kind, what, default).endswith(f"the maximum is {default}")


@both
def test_maximum_may_stand_where_icehouse_had_it(tmp_path, kind, what, default):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{what[0]} = 3\n")
    settings = Settings.from_conf(read_files(make_full_conf(), [str(file)]))
    assert getattr(settings.filter_scheduler, what[0]) == 3


@both
def test_instances_of_one_request_count_against_each_other(kind, what, default):
    host, plugin = a_host(**{what[1]: default - 1}), kind.with_settings(settings_with())
    assert refusal_of(plugin, host) is None
    host.consume_from_request(a_spec())
    assert refusal_of(plugin, host) == f"{default} {what[2]}, the maximum is {default}"
    assert plugin.run_filter_for_index(1)


@pytest.mark.parametrize(
    ("values", "most"),
    [((), 6), ((None,), 6), (("12",), 12), (("3",), 3), (("10", "9"), 9), (("0",), 0)],
)
@both_by_aggregates
def test_smallest_maximum_of_the_aggregates_counts(kind, what, values, most):
    metadata = [{"other": "1"} if value is None else {what[0]: value} for value in values]
    assert refusal(kind, what, most - 1, *metadata, most=6) is None
    reason = f"{most} {what[2]}, the maximum is {most}"
    assert refusal(kind, what, most, *metadata, most=6) == reason


@pytest.mark.parametrize("value", ["few", "3.5", "3,4", ""])
@both_by_aggregates
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(kind, what, value, caplog):
    with caplog.at_level(logging.WARNING):
        found = refusal(kind, what, 6, {what[0]: value}, {what[0]: "12"}, most=6)
    assert found == f"6 {what[2]}, the maximum is 6"
    assert what[0] in caplog.text
