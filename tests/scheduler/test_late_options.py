# SPDX-License-Identifier: Apache-2.0
"""Options that plugins register when they are created or used."""

from pathlib import Path

import pytest
from oslo_config import cfg

from placement_sched.cli.main import main
from placement_sched.config.conf import CONF, read_files
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.plugins import get_plugins, make_full_conf, read_settings
from placement_sched.scheduler.weights import run_weighers
from tests.support.states import build_host_state, build_spec, read_settings_text

PLUGIN_TEXT = """
from oslo_config import cfg
from {package} import {name}
from placement_sched.scheduler import filters, weights


class LateFilter(filters.BaseHostFilter):
    def __init__(self):
        super().__init__()
        {conf}.register_opts([cfg.StrOpt("failure_mode", default="reject")], group="{module}_made")

    def host_passes(self, host_state, spec_obj):
        {conf}.register_opts([cfg.StrOpt("zone", default="none")], group="{module}_used")
        mode, zone = {conf}.{module}_made.failure_mode, {conf}.{module}_used.zone
        setattr(host_state, "acme.idle-ratio", len(host_state.host))
        return (mode, zone) == ("yield", "north")


class LateWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return getattr(host_state, "acme.idle-ratio")
"""
CONFIG_FILE_TEXT = """
[placement_database]
connection = sqlite:///late.db
[filter_scheduler]
available_filters = {module}.LateFilter
enabled_filters = LateFilter
weight_classes = {module}.LateWeigher
[{module}_made]
failure_mode = yield
[{module}_used]
zone = north
"""


@pytest.fixture(autouse=True)
def reset_global_conf_after_test():
    """Remove the configuration files from objects of the process after the test."""
    yield
    for conf in (CONF, cfg.CONF):
        read_files(conf)


@pytest.fixture
def plugin_config_file(tmp_path, monkeypatch, request):
    """Write a plugin that registers options of an object, and a configuration file."""
    package, name, conf = request.param
    module = f"late_{name.lower()}"
    text = PLUGIN_TEXT.format(package=package, name=name, conf=conf, module=module)
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    config_file = tmp_path / "late.conf"
    config_file.write_text(CONFIG_FILE_TEXT.format(module=module))
    return str(config_file)


parametrize_conf_objects = pytest.mark.parametrize(
    "plugin_config_file",
    [("oslo_config", "cfg", "cfg.CONF"), ("placement_sched.config", "CONF", "CONF")],
    indirect=True,
    ids=["CONF of oslo.config", "CONF of placement_sched"],
)


@parametrize_conf_objects
def test_options_registered_by_plugins_have_the_values_of_the_file(plugin_config_file):
    plugins = get_plugins(read_settings([plugin_config_file], make_full_conf()))
    hosts = [build_host_state("cn1"), build_host_state("cn22")]
    hosts_after = run_filters(plugins.filters, hosts, build_spec()).hosts
    assert hosts_after == hosts
    # An attribute that the filter sets.
    best, *_ = run_weighers(plugins.weighers, hosts_after, build_spec()).hosts
    assert best.obj.host == "cn22"


@parametrize_conf_objects
def test_config_validate_accepts_options_registered_in_init(plugin_config_file, capsys):
    status = main(["config", "validate", "--config-file", plugin_config_file])
    assert "_made" not in capsys.readouterr().out
    assert status == 0


@parametrize_conf_objects
def test_options_registered_in_init_have_values_of_the_new_file(plugin_config_file):
    get_plugins(read_settings([plugin_config_file], make_full_conf()))
    path = Path(plugin_config_file)
    path.write_text(path.read_text().replace("= yield", "= reject"))
    plugins = get_plugins(read_settings([plugin_config_file], make_full_conf()))
    assert run_filters(plugins.filters, [build_host_state()], build_spec()).hosts == []


def test_option_registered_after_reading_settings_has_the_value_of_the_file(tmp_path):
    read_settings_text(tmp_path, "[brought_early]\nracks = 8\n")
    cfg.CONF.register_opts([cfg.IntOpt("racks")], "brought_early")
    assert cfg.CONF.brought_early.racks == 8


def test_errors_about_an_option_of_a_plugin_name_its_line_in_the_new_file(tmp_path):
    for text, line in (("[acme]\nracks = 8\n", 2), ("[acme]\n\n\nracks = 9\n", 4)):
        read_settings_text(tmp_path, text)
        ((assignment,),) = CONF.sections.values()
        assert assignment.place.line == line
