# SPDX-License-Identifier: Apache-2.0
"""The global CONF shows the settings of the request during which a plugin runs."""

from threading import Thread

import pytest
from oslo_config import cfg

from placement_sched.config.conf import CONF, create_conf, in_effect, read_files, share_files
from placement_sched.config.settings import SETTINGS_IN_EFFECT, Conf
from tests.support.states import build_settings

OPTION_OVERRIDES = {"DEFAULT__service_down_time": 7, "scheduler__max_attempts": 9}


@pytest.fixture(autouse=True)
def _reset_conf() -> None:
    """Reset the global CONF, which a command of another test may have loaded."""
    read_files(CONF)


def test_global_conf_has_the_settings_in_effect_until_they_end():
    with in_effect(build_settings(**OPTION_OVERRIDES)):
        assert CONF.service_down_time == CONF["service_down_time"] == 7
        assert CONF.scheduler.max_attempts == CONF["scheduler"]["max_attempts"] == 9
        assert CONF.scheduler.max_placement_results == 1000
    assert (CONF.service_down_time, CONF.scheduler.max_attempts) == (60, 3)
    assert SETTINGS_IN_EFFECT.get() is None


def test_settings_in_effect_can_be_nested():
    with in_effect(build_settings(**OPTION_OVERRIDES)):
        with in_effect(build_settings()):
            assert CONF.scheduler.max_attempts == 3
        assert CONF.scheduler.max_attempts == 9


def test_settings_in_effect_belong_to_one_thread():
    seen = []
    with in_effect(build_settings(**OPTION_OVERRIDES)):
        thread = Thread(target=lambda: seen.append(CONF.scheduler.max_attempts))
        thread.start()
        thread.join(timeout=60)
    assert seen == [3]


def test_settings_in_effect_end_after_an_error():
    with pytest.raises(RuntimeError), in_effect(build_settings(**OPTION_OVERRIDES)):
        raise RuntimeError
    assert CONF.scheduler.max_attempts == 3


def test_options_missing_in_settings_are_read_from_the_global_conf():
    CONF.register_opts([cfg.IntOpt("late", default=5)], group="scheduler")
    CONF.register_opts([cfg.IntOpt("late", default=6)], group="test_in_effect")
    with in_effect(build_settings(**OPTION_OVERRIDES)):
        assert CONF.scheduler.late == 5
        assert CONF.test_in_effect.late == 6
        with pytest.raises(cfg.NoSuchOptError):
            _ = CONF.no_such_option
        with pytest.raises(cfg.NoSuchOptError):
            _ = CONF.scheduler.no_such_option


def test_options_that_plugins_register_are_added_to_new_conf_objects():
    CONF.register_opts([cfg.IntOpt("brought_racks", default=3)], "brought_by_module")
    CONF.register_opts([cfg.IntOpt("brought_rows", default=2)])
    fresh = create_conf()
    fresh.register_missing(CONF)
    fresh.register_missing(CONF)
    assert (fresh.brought_by_module.brought_racks, fresh.brought_rows) == (3, 2)


def test_plugin_option_does_not_replace_an_option_of_the_same_name():
    conf, other = create_conf(), Conf()
    other.register_opts([cfg.FloatOpt("cpu_allocation_ratio", default=99.0)])
    conf.register_missing(other)
    assert conf.cpu_allocation_ratio != 99.0


def test_global_conf_has_values_of_the_files_and_no_overrides(tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[brought_globally]\nracks = 8\n")
    share_files(read_files(create_conf(), [str(file)]))
    cfg.CONF.register_opts([cfg.IntOpt("racks", default=3)], "brought_globally")
    with in_effect(build_settings(**OPTION_OVERRIDES)):
        assert cfg.CONF.brought_globally.racks == 8
    assert type(cfg.CONF) is cfg.ConfigOpts
    read_files(cfg.CONF)
