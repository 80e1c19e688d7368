"""An option's older names work in files, the environment and overrides; today's wins."""

import pytest
from oslo_config import cfg

from placement_sched.config.conf import new_conf, read_files
from placement_sched.config.opts import AliasedBoolOpt, is_explicit
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid


@pytest.fixture
def conf():
    conf = new_conf()
    old = [cfg.DeprecatedOpt("old_size"), cfg.DeprecatedOpt("older_size", group="DEFAULT")]
    conf.register_opts([cfg.IntOpt("size", default=1, deprecated_opts=old)], group="boxes")
    return conf


NAMES = ["boxes.size", "boxes.old_size", "DEFAULT.older_size"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_works_in_a_file(conf, name, tmp_path):
    group, option = name.split(".")
    file = tmp_path / "a.conf"
    file.write_text(f"[{group}]\n{option} = 5\n")
    assert Settings.from_conf(read_files(conf, [str(file)])).boxes.size == 5


@pytest.mark.parametrize("name", NAMES)
def test_every_name_works_in_the_environment(conf, name, monkeypatch):
    monkeypatch.setenv("OS_" + name.upper().replace(".", "__"), "5")
    assert Settings.from_conf(read_files(conf)).boxes.size == 5


def test_todays_name_wins_in_the_environment(conf, monkeypatch):
    monkeypatch.setenv("OS_BOXES__OLD_SIZE", "5")
    monkeypatch.setenv("OS_BOXES__SIZE", "6")
    assert Settings.from_conf(read_files(conf)).boxes.size == 6


@pytest.mark.parametrize("name", [*NAMES, "older_size"])
def test_every_name_works_in_overrides(conf, name):
    assert Settings.from_conf(read_files(conf)).with_overrides({name: 5}).boxes.size == 5


@pytest.mark.parametrize("name", ["boxes.older_size", "size", "DEFAULT.old_size"])
def test_older_name_works_in_its_own_group_only(conf, name):
    with pytest.raises(Invalid, match=name):
        Settings.from_conf(read_files(conf)).with_overrides({name: 5})


# Names that mean the same, of which none is older.


@pytest.fixture
def aliased(monkeypatch):
    monkeypatch.setattr(cfg, "_report_deprecation", lambda *told: pytest.fail(str(told)))
    conf = new_conf()
    conf.register_opts([AliasedBoolOpt("wide", alias="broad", default=False)], group="boxes")
    return conf


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_no_name_of_an_aliased_option_is_called_deprecated(aliased, name, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text(f"[boxes]\n{name} = true\n")
    conf = read_files(aliased, [str(file)])
    assert Settings.from_conf(conf).boxes.wide is True
    assert is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize(
    "order", [("wide = true", "broad = false"), ("broad = false", "wide = true")]
)
def test_first_name_of_an_aliased_option_wins(aliased, order, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[boxes]\n" + "\n".join(order) + "\n")
    assert Settings.from_conf(read_files(aliased, [str(file)])).boxes.wide is True


def test_absent_aliased_option_has_its_default(aliased):
    conf = read_files(aliased)
    assert Settings.from_conf(conf).boxes.wide is False
    assert not is_explicit(conf, "boxes", "wide")


@pytest.mark.parametrize("name", ["wide", "broad"])
def test_aliased_option_works_in_environment_and_overrides(aliased, name, monkeypatch):
    settings = Settings.from_conf(read_files(aliased))
    assert settings.with_overrides({f"boxes.{name}": True}).boxes.wide is True
    monkeypatch.setenv(f"OS_BOXES__{name.upper()}", "true")
    assert Settings.from_conf(read_files(aliased)).boxes.wide is True
