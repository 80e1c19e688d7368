# SPDX-License-Identifier: Apache-2.0
"""The options of metrics: names, ratios and defaults."""

import logging

import pytest

from placement_sched.config.conf import create_conf, read_files
from placement_sched.config.options.scheduler import parse_weight_setting
from placement_sched.config.settings import Settings


@pytest.mark.parametrize(
    ("items", "pairs"),
    [
        ([], ()),
        (["cpu.percent=-1.0"], (("cpu.percent", -1.0),)),
        (["b=2", "a = 1e3"], (("b", 2.0), ("a", 1000.0))),
        (["a=1", "a=2"], (("a", 1.0), ("a", 2.0))),
    ],
)
def test_metrics_weight_setting_is_parsed_in_order(items, pairs, caplog):
    assert parse_weight_setting(items) == pairs
    assert not caplog.records


@pytest.mark.parametrize("invalid_setting", ["a", "a=", "=1", "a=x", "a=nan", "a=inf", "", "a=1=2"])
def test_invalid_metrics_weight_setting_is_logged_and_ignored(invalid_setting, caplog):
    with caplog.at_level(logging.WARNING):
        assert parse_weight_setting([invalid_setting, "b=1"]) == (("b", 1.0),)
    (record,) = caplog.records
    assert record.getMessage().endswith(f"ignored: {invalid_setting}")


def test_defaults_of_metrics_options_equal_those_of_nova():
    options = Settings.from_conf(read_files(create_conf())).metrics
    assert (options.weight_multiplier, options.weight_setting) == (1.0, [])
    assert (options.required, options.weight_of_unavailable) == (True, -10000.0)
