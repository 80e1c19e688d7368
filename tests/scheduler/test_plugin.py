# SPDX-License-Identifier: Apache-2.0
"""Settings, clock and options of every plugin."""

import logging
from contextlib import nullcontext

import pytest
from oslo_config import cfg

from placement_sched.config.conf import CONF, in_effect
from placement_sched.errors import PluginFailed
from placement_sched.scheduler.plugin import (
    PluginCall,
    SchedulerPlugin,
    get_class_path,
    tolerate_failures,
)
from tests.support.states import NOW, build_settings


class PluginWithOptions(SchedulerPlugin):
    options = (
        ("test_plugin", cfg.IntOpt("size", default=4, help="How large.")),
        ("DEFAULT", cfg.StrOpt("test_plugin_colour", default="red", help="Which colour.")),
    )

    def __init__(self):
        self.size = self.settings.test_plugin.size
        self.down_time = self.settings.DEFAULT.service_down_time


class DownTimeReadingPlugin(SchedulerPlugin):
    def __init__(self):
        self.down_time = self.settings.DEFAULT.service_down_time


def test_plugin_without_arguments_has_the_options_of_the_process():
    assert (CONF.test_plugin.size, CONF.test_plugin_colour) == (4, "red")
    plugin = PluginWithOptions()
    assert plugin.settings.test_plugin.size == 4
    CONF.set_override("size", 9, "test_plugin")
    try:
        assert PluginWithOptions().size == 9
        assert plugin.settings.test_plugin.size == 9
    finally:
        CONF.clear_override("size", "test_plugin")
    assert PluginWithOptions().size == 4
    assert get_class_path(PluginWithOptions) == "tests.scheduler.test_plugin.PluginWithOptions"


def test_plugin_created_with_settings_and_a_clock_uses_them():
    settings = build_settings(DEFAULT__service_down_time=7)
    plugin = DownTimeReadingPlugin.with_settings(settings, lambda: NOW)
    assert plugin.down_time == 7
    assert plugin.settings is settings
    assert plugin.now() == NOW
    with in_effect(settings):
        assert DownTimeReadingPlugin().down_time == 7
    assert DownTimeReadingPlugin().down_time == 60
    assert DownTimeReadingPlugin().now() > NOW


@pytest.mark.parametrize(
    ("context", "level"), [(nullcontext, "ERROR"), (tolerate_failures, "DEBUG")]
)
def test_plugin_failure_is_logged_as_an_error_unless_the_caller_continues(caplog, context, level):
    caplog.set_level(logging.DEBUG, "placement_sched")
    match = "PluginWithOptions failed: ValueError: broken"
    with context(), pytest.raises(PluginFailed, match=match), PluginCall(PluginWithOptions()):
        raise ValueError("broken")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        level,
        f"{get_class_path(PluginWithOptions)} failed",
    )
