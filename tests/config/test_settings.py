# SPDX-License-Identifier: Apache-2.0
"""Old names of an option in files, the environment and overrides.

Options with two names, neither deprecated, options that are unregistered, and cached values.
"""

import gc
from weakref import ref

import pytest
from oslo_config import cfg

from placement_sched.config.conf import create_conf, read_files
from placement_sched.config.settings import (
    MAX_INT,
    AliasedBoolOpt,
    Settings,
    cached_by_settings,
    is_explicit,
)
from placement_sched.errors import Invalid


@pytest.fixture
def conf_with_old_option_names():
    conf_with_old_option_names = create_conf()
    old = [cfg.DeprecatedOpt("old_size"), cfg.DeprecatedOpt("older_size", group="DEFAULT")]
    conf_with_old_option_names.register_opts(
        [cfg.IntOpt("size", default=1, deprecated_opts=old)], group="boxes"
    )
    return conf_with_old_option_names


SIZE_OPTION_NAMES = ["boxes.size", "boxes.old_size", "DEFAULT.older_size"]


@pytest.mark.parametrize("name", SIZE_OPTION_NAMES)
def test_each_old_option_name_sets_the_option_in_a_file(conf_with_old_option_names, name, tmp_path):
    group, option = name.split(".")
    file = tmp_path / "a.conf"
    file.write_text(f"[{group}]\n{option} = 5\n")
    assert Settings.from_conf(read_files(conf_with_old_option_names, [str(file)])).boxes.size == 5


@pytest.mark.parametrize("name", SIZE_OPTION_NAMES)
def test_each_old_option_name_sets_the_option_in_the_environment(
    conf_with_old_option_names, name, monkeypatch
):
    monkeypatch.setenv("OS_" + name.upper().replace(".", "__"), "5")
    assert Settings.from_conf(read_files(conf_with_old_option_names)).boxes.size == 5


def test_current_option_name_takes_precedence_in_the_environment(
    conf_with_old_option_names, monkeypatch
):
    monkeypatch.setenv("OS_BOXES__OLD_SIZE", "5")
    monkeypatch.setenv("OS_BOXES__SIZE", "6")
    assert Settings.from_conf(read_files(conf_with_old_option_names)).boxes.size == 6


@pytest.mark.parametrize("name", [*SIZE_OPTION_NAMES, "older_size"])
def test_each_old_option_name_sets_the_option_in_overrides(conf_with_old_option_names, name):
    assert (
        Settings.from_conf(read_files(conf_with_old_option_names))
        .with_overrides({name: 5})
        .boxes.size
        == 5
    )


@pytest.mark.parametrize("name", ["boxes.older_size", "size", "DEFAULT.old_size"])
def test_old_option_name_is_unknown_in_another_group(conf_with_old_option_names, name):
    with pytest.raises(Invalid, match=name):
        Settings.from_conf(read_files(conf_with_old_option_names)).with_overrides({name: 5})


@pytest.fixture
def conf_with_option_alias(monkeypatch):
    monkeypatch.setattr(cfg, "_report_deprecation", lambda *args: pytest.fail(str(args)))
    conf = create_conf()
    conf.register_opts([AliasedBoolOpt("wide", alias="broad", default=False)], group="boxes")
    return conf


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_alias_of_an_option_is_not_deprecated(conf_with_option_alias, name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[boxes]\n{name} = true\n")
    conf = read_files(conf_with_option_alias, [str(file)])
    assert Settings.from_conf(conf).boxes.wide is True
    assert is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize(
    "order", [("wide = true", "broad = false"), ("broad = false", "wide = true")]
)
def test_option_name_takes_precedence_over_its_alias_in_any_order(
    conf_with_option_alias, order, tmp_path
):
    file = tmp_path / "a.conf"
    file.write_text("[boxes]\n" + "\n".join(order) + "\n")
    assert Settings.from_conf(read_files(conf_with_option_alias, [str(file)])).boxes.wide is True


def test_unset_aliased_option_has_its_default(conf_with_option_alias):
    conf = read_files(conf_with_option_alias)
    assert Settings.from_conf(conf).boxes.wide is False
    assert not is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_alias_sets_an_option_in_environment_and_overrides(
    conf_with_option_alias, name, monkeypatch
):
    settings = Settings.from_conf(read_files(conf_with_option_alias))
    assert settings.with_overrides({f"boxes.{name}": True}).boxes.wide is True
    monkeypatch.setenv(f"OS_BOXES__{name.upper()}", "true")
    assert Settings.from_conf(read_files(conf_with_option_alias)).boxes.wide is True


def test_settings_lack_an_option_that_was_unregistered():
    conf, option = create_conf(), cfg.StrOpt("racks", default="8")
    conf.register_opt(option, group="acme")
    assert Settings.from_conf(read_files(conf)).acme.racks == "8"
    conf.reset()
    conf.unregister_opt(option, group="acme")
    assert "racks" not in Settings.from_conf(conf).registered.get("acme", {})


def test_variable_sets_no_option_of_settings_without_environment(monkeypatch):
    monkeypatch.setenv("OS_SCHEDULER__MAX_ATTEMPTS", "7")
    conf = create_conf()
    conf(args=[], default_config_files=[], default_config_dirs=[], use_env=False)
    settings = Settings.from_conf(conf)
    assert settings.scheduler.max_attempts == 3
    assert settings.find_assignment("scheduler", "max_attempts") is None


def test_conf_takes_its_arguments_by_position():
    conf = create_conf()
    conf([], project="nova", default_config_files=[], default_config_dirs=[])
    assert Settings.from_conf(conf).scheduler.max_attempts == 3


class Sizes:
    def __init__(self, settings: Settings, unit: str) -> None:
        self.settings, self.unit = settings, unit


@cached_by_settings
def build_sizes(settings: Settings, unit: str = "MB") -> Sizes:
    return Sizes(settings, unit)


def test_cached_value_is_found_by_settings_and_arguments():
    conf = read_files(create_conf())
    settings, equal_settings = Settings.from_conf(conf), Settings.from_conf(conf)
    assert build_sizes(settings, "GB") is build_sizes(settings, "GB")
    assert build_sizes(settings, unit="GB") is build_sizes(settings, unit="GB")
    assert build_sizes(settings).unit == "MB"
    assert build_sizes(equal_settings, "GB").settings is equal_settings


def test_cached_value_is_released_with_its_settings():
    settings = Settings.from_conf(read_files(create_conf()))
    sizes = ref(build_sizes(settings.with_overrides({"scheduler.max_attempts": 5})))
    gc.collect()
    assert sizes() is None


@pytest.mark.parametrize(
    ("down_time", "interval", "expected"),
    [(60, 10, 60), (60, 60, 150), (0, 10, 25), (-5, 3, 7), (0, 0, 0), (10**20, 10**20, MAX_INT)],
)
def test_down_time_is_greater_than_the_report_interval_as_in_nova(
    tmp_path, down_time, interval, expected
):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\nservice_down_time = {down_time}\nreport_interval = {interval}\n")
    settings = Settings.from_conf(read_files(create_conf(), [str(file)]))
    assert settings.DEFAULT.service_down_time == expected
