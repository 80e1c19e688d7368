# SPDX-License-Identifier: Apache-2.0
"""Options that modules of plugins register when they are imported."""

import pytest
from oslo_config import cfg

from placement_sched.config.conf import CONF, in_effect, new_conf, track_registered_options
from placement_sched.config.settings import Settings


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "oslo.config's own"])
def test_registered_options_are_tracked(ours):
    group = "brought_to_ours" if ours else "brought_to_oslo"
    with track_registered_options():
        conf = CONF if ours else cfg.CONF
        conf.register_opts([cfg.IntOpt("racks", default=3)], group)
    conf.register_opts([cfg.IntOpt("later", default=3)], group)
    noted = [option.dest for where, option in CONF.noted() if where == group]
    assert noted == ["racks"]
    fresh = new_conf()
    CONF.register_noted(fresh)
    CONF.register_noted(fresh)
    assert fresh[group].racks == 3


def test_options_of_a_failing_import_are_tracked():
    def fail():
        CONF.register_opts([cfg.IntOpt("failing", default=3)], "brought_by_failing")
        raise RuntimeError

    with pytest.raises(RuntimeError), track_registered_options():
        fail()
    assert "brought_by_failing" in [group for group, _ in CONF.noted()]


def test_own_option_of_equal_name_is_kept():
    with track_registered_options():
        cfg.CONF.register_opts([cfg.FloatOpt("cpu_allocation_ratio", default=99.0)])
    conf = new_conf()
    ours = conf.cpu_allocation_ratio
    CONF.register_noted(conf)
    assert conf.cpu_allocation_ratio == ours != 99.0


def test_oslo_config_object_shows_active_settings():
    with track_registered_options():
        cfg.CONF.register_opts([cfg.IntOpt("racks", default=3)], "brought_in_effect")
    conf = new_conf()
    CONF.register_noted(conf)
    changed = Settings.from_conf(conf).with_overrides({"brought_in_effect.racks": 8})
    with in_effect(changed):
        assert cfg.CONF.brought_in_effect.racks == 8
        assert cfg.CONF.scheduler.max_attempts == 3
        assert "max_attempts" in cfg.CONF.scheduler
        assert "no_such_option" not in cfg.CONF.scheduler
        with pytest.raises(cfg.NoSuchOptError):
            _ = cfg.CONF.scheduler.no_such_option
        with pytest.raises(cfg.NoSuchOptError):
            _ = cfg.CONF.no_such_group
    assert cfg.CONF.brought_in_effect.racks == 3
    with pytest.raises(cfg.NoSuchOptError):
        _ = cfg.CONF.scheduler
