# SPDX-License-Identifier: Apache-2.0
"""Options with two names, neither deprecated, and options that are unregistered."""

import pytest
from oslo_config import cfg

from placement_sched.config.conf import new_conf, read_files
from placement_sched.config.settings import AliasedBoolOpt, Settings, is_explicit


@pytest.fixture
def conf_with_an_aliased_option(monkeypatch):
    monkeypatch.setattr(cfg, "_report_deprecation", lambda *args: pytest.fail(str(args)))
    conf = new_conf()
    conf.register_opts([AliasedBoolOpt("wide", alias="broad", default=False)], group="boxes")
    return conf


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_alias_names_are_not_deprecated(conf_with_an_aliased_option, name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[boxes]\n{name} = true\n")
    conf = read_files(conf_with_an_aliased_option, [str(file)])
    assert Settings.from_conf(conf).boxes.wide is True
    assert is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize(
    "order", [("wide = true", "broad = false"), ("broad = false", "wide = true")]
)
def test_option_name_takes_precedence_over_its_alias_in_any_order(
    conf_with_an_aliased_option, order, tmp_path
):
    file = tmp_path / "a.conf"
    file.write_text("[boxes]\n" + "\n".join(order) + "\n")
    assert (
        Settings.from_conf(read_files(conf_with_an_aliased_option, [str(file)])).boxes.wide is True
    )


def test_unset_aliased_option_has_its_default(conf_with_an_aliased_option):
    conf = read_files(conf_with_an_aliased_option)
    assert Settings.from_conf(conf).boxes.wide is False
    assert not is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_each_alias_name_sets_the_option_in_environment_and_overrides(
    conf_with_an_aliased_option, name, monkeypatch
):
    settings = Settings.from_conf(read_files(conf_with_an_aliased_option))
    assert settings.with_overrides({f"boxes.{name}": True}).boxes.wide is True
    monkeypatch.setenv(f"OS_BOXES__{name.upper()}", "true")
    assert Settings.from_conf(read_files(conf_with_an_aliased_option)).boxes.wide is True


def test_settings_lack_an_option_that_was_unregistered():
    conf, option = new_conf(), cfg.StrOpt("racks", default="8")
    conf.register_opt(option, group="acme")
    assert Settings.from_conf(read_files(conf)).acme.racks == "8"
    conf.reset()
    conf.unregister_opt(option, group="acme")
    assert "racks" not in Settings.from_conf(conf).registered.get("acme", {})
