# SPDX-License-Identifier: Apache-2.0
"""Options with two names, neither deprecated."""

import pytest
from oslo_config import cfg

from placement_sched.config.conf import new_conf, read_files
from placement_sched.config.opts import AliasedBoolOpt, is_explicit
from placement_sched.config.settings import Settings


@pytest.fixture
def aliased(monkeypatch):
    monkeypatch.setattr(cfg, "_report_deprecation", lambda *args: pytest.fail(str(args)))
    conf = new_conf()
    conf.register_opts([AliasedBoolOpt("wide", alias="broad", default=False)], group="boxes")
    return conf


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_alias_names_are_not_deprecated(aliased, name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[boxes]\n{name} = true\n")
    conf = read_files(aliased, [str(file)])
    assert Settings.from_conf(conf).boxes.wide is True
    assert is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize(
    "order", [("wide = true", "broad = false"), ("broad = false", "wide = true")]
)
def test_first_alias_name_takes_precedence(aliased, order, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[boxes]\n" + "\n".join(order) + "\n")
    assert Settings.from_conf(read_files(aliased, [str(file)])).boxes.wide is True


def test_unset_aliased_option_has_its_default(aliased):
    conf = read_files(aliased)
    assert Settings.from_conf(conf).boxes.wide is False
    assert not is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_aliased_option_works_in_environment_and_overrides(aliased, name, monkeypatch):
    settings = Settings.from_conf(read_files(aliased))
    assert settings.with_overrides({f"boxes.{name}": True}).boxes.wide is True
    monkeypatch.setenv(f"OS_BOXES__{name.upper()}", "true")
    assert Settings.from_conf(read_files(aliased)).boxes.wide is True
