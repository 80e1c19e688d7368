# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.filters.num_instances_filter import (
    AggregateNumInstancesFilter,
    NumInstancesFilter,
)
from placement_sched.scheduler.plugins import make_full_conf
from tests.support.states import a_host, a_spec, aggregates, refusal_of, settings_with

OPTION = "max_instances_per_host"
DEFAULT = 50


def refusal(kind, number, *metadata, most=None):
    settings = settings_with(**({} if most is None else {f"filter_scheduler__{OPTION}": most}))
    host = a_host(num_instances=number, aggregates=aggregates(*metadata))
    return refusal_of(kind.with_settings(settings), host)


@pytest.mark.parametrize(
    ("number", "most", "refused"), [(0, 1, False), (4, 5, False), (5, 5, True), (6, 5, True)]
)
def test_host_that_has_reached_the_maximum_is_refused(number, most, refused):
    reason = f"{number} instances there, the maximum is {most}"
    assert refusal(NumInstancesFilter, number, most=most) == (reason if refused else None)


def test_maximum_has_a_default():
    assert refusal(NumInstancesFilter, DEFAULT - 1) is None
    assert refusal(NumInstancesFilter, DEFAULT).endswith(f"the maximum is {DEFAULT}")


def test_maximum_may_stand_where_icehouse_had_it(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{OPTION} = 3\n")
    settings = Settings.from_conf(read_files(make_full_conf(), [str(file)]))
    assert settings.filter_scheduler.max_instances_per_host == 3


def test_instances_of_one_request_count_against_each_other():
    host = a_host(num_instances=DEFAULT - 1)
    plugin = NumInstancesFilter.with_settings(settings_with())
    assert refusal_of(plugin, host) is None
    host.consume_from_request(a_spec())
    assert refusal_of(plugin, host) == f"{DEFAULT} instances there, the maximum is {DEFAULT}"
    assert plugin.run_filter_for_index(1)


@pytest.mark.parametrize(
    ("values", "most"),
    [((), 6), ((None,), 6), (("12",), 12), (("3",), 3), (("10", "9"), 9), (("0",), 0)],
)
def test_smallest_maximum_of_the_aggregates_counts(values, most):
    metadata = [{"other": "1"} if value is None else {OPTION: value} for value in values]
    assert refusal(AggregateNumInstancesFilter, most - 1, *metadata, most=6) is None
    reason = f"{most} instances there, the maximum is {most}"
    assert refusal(AggregateNumInstancesFilter, most, *metadata, most=6) == reason


@pytest.mark.parametrize("value", ["few", "3.5", "3,4", ""])
def test_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(value, caplog):
    with caplog.at_level(logging.WARNING):
        found = refusal(AggregateNumInstancesFilter, 6, {OPTION: value}, {OPTION: "12"}, most=6)
    assert found == "6 instances there, the maximum is 6"
    assert OPTION in caplog.text
