# SPDX-License-Identifier: Apache-2.0
"""What every plugin has: settings, a clock, options that are known."""

from oslo_config import cfg

from placement_sched.config.conf import CONF, in_effect
from placement_sched.scheduler.plugin import SchedulerPlugin, path_of
from tests.support.states import NOW, settings_with


class Plugin(SchedulerPlugin):
    options = (
        ("test_plugin", cfg.IntOpt("size", default=4, help="How large.")),
        ("DEFAULT", cfg.StrOpt("test_plugin_colour", default="red", help="Which colour.")),
    )

    def __init__(self):
        self.size = self.settings.test_plugin.size
        self.down_time = self.settings.DEFAULT.service_down_time


class Counts(SchedulerPlugin):
    def __init__(self):
        self.down_time = self.settings.DEFAULT.service_down_time


def test_options_are_known_as_soon_as_the_class_exists():
    assert CONF.test_plugin.size == 4
    assert CONF.test_plugin_colour == "red"


def test_plugin_made_with_no_arguments_reads_the_processes_options():
    CONF.set_override("size", 9, "test_plugin")
    try:
        assert Plugin().size == 9
    finally:
        CONF.clear_override("size", "test_plugin")
    assert Plugin().size == 4


def test_plugin_made_with_no_arguments_follows_the_options():
    plugin = Plugin()
    assert plugin.settings.test_plugin.size == 4
    CONF.set_override("size", 9, "test_plugin")
    try:
        assert plugin.settings.test_plugin.size == 9
    finally:
        CONF.clear_override("size", "test_plugin")


def test_settings_handed_in_are_there_before_init_runs():
    settings = settings_with(DEFAULT__service_down_time=7)
    plugin = Counts.with_settings(settings, lambda: NOW)
    assert plugin.down_time == 7
    assert plugin.settings is settings
    assert plugin.now() == NOW


def test_plugin_made_in_a_run_has_the_settings_of_the_run():
    with in_effect(settings_with(DEFAULT__service_down_time=7)):
        assert Counts().down_time == 7
    assert Counts().down_time == 60


def test_clock_is_the_systems_unless_handed_in():
    assert Counts().now() > NOW


def test_class_is_known_by_its_path():
    assert path_of(Plugin) == "tests.scheduler.test_plugin.Plugin"
