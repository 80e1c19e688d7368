# SPDX-License-Identifier: Apache-2.0
"""IoOpsFilter and AggregateIoOpsFilter, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.filters.io_ops_filter import AggregateIoOpsFilter, IoOpsFilter
from placement_sched.scheduler.plugins import make_full_conf
from tests.support.states import a_host, a_spec, aggregates, refusal_of, settings_with

OPTION = "max_io_ops_per_host"
DEFAULT = 8


def refusal(kind, number, *metadata, most=None):
    settings = settings_with(**({} if most is None else {f"filter_scheduler__{OPTION}": most}))
    host = a_host(num_io_ops=number, aggregates=aggregates(*metadata))
    return refusal_of(kind.with_settings(settings), host)


@pytest.mark.parametrize(
    ("number", "most", "refused"),
    [(0, 8, False), (7, 8, False), (8, 8, True), (9, 8, True), (0, 0, True)],
)
def test_host_that_has_reached_the_maximum_is_refused(number, most, refused):
    reason = f"{number} instances busy with disks, the maximum is {most}"
    assert refusal(IoOpsFilter, number, most=most) == (reason if refused else None)


def test_maximum_has_a_default():
    assert refusal(IoOpsFilter, DEFAULT - 1) is None
    assert refusal(IoOpsFilter, DEFAULT).endswith(f"the maximum is {DEFAULT}")


def test_maximum_may_stand_where_icehouse_had_it(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{OPTION} = 3\n")
    settings = Settings.from_conf(read_files(make_full_conf(), [str(file)]))
    assert settings.filter_scheduler.max_io_ops_per_host == 3


def test_instances_of_one_request_count_against_each_other():
    host = a_host(num_io_ops=DEFAULT - 1)
    plugin = IoOpsFilter.with_settings(settings_with())
    assert refusal_of(plugin, host) is None
    host.consume_from_request(a_spec())
    reason = f"{DEFAULT} instances busy with disks, the maximum is {DEFAULT}"
    assert refusal_of(plugin, host) == reason
    assert plugin.run_filter_for_index(1)


@pytest.mark.parametrize(
    ("values", "most"),
    [((), 6), ((None,), 6), (("12",), 12), (("3",), 3), (("10", "9"), 9), (("0",), 0)],
)
def test_smallest_maximum_of_the_aggregates_counts(values, most):
    metadata = [{"other": "1"} if value is None else {OPTION: value} for value in values]
    assert refusal(AggregateIoOpsFilter, most - 1, *metadata, most=6) is None
    reason = f"{most} instances busy with disks, the maximum is {most}"
    assert refusal(AggregateIoOpsFilter, most, *metadata, most=6) == reason


@pytest.mark.parametrize("value", ["few", "3.5", "3,4", ""])
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(value, caplog):
    with caplog.at_level(logging.WARNING):
        found = refusal(AggregateIoOpsFilter, 6, {OPTION: value}, {OPTION: "12"}, most=6)
    assert found == "6 instances busy with disks, the maximum is 6"
    assert OPTION in caplog.text
