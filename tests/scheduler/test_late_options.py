# SPDX-License-Identifier: Apache-2.0
"""Options that plugins register when they are made, or later, and attributes that they set."""

from pathlib import Path

import pytest
from oslo_config import cfg

from placement_sched.cli.main import main
from placement_sched.config.conf import CONF, read_files
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.plugins import make_full_conf, plugins_for, read_settings
from placement_sched.scheduler.weighing import run_weighers
from tests.support.states import a_host, a_spec

MODULE = """
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
FILE = """
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
def _no_files():
    """Leave no file to the tests that follow in objects of the process."""
    yield
    for conf in (CONF, cfg.CONF):
        read_files(conf)


@pytest.fixture
def file(tmp_path, monkeypatch, request):
    """Write a plugin that registers options of its own with an object, and its configuration."""
    package, name, conf = request.param
    module = f"late_{name.lower()}"
    text = MODULE.format(package=package, name=name, conf=conf, module=module)
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    written = tmp_path / "late.conf"
    written.write_text(FILE.format(module=module))
    return str(written)


of_each_object = pytest.mark.parametrize(
    "file",
    [("oslo_config", "cfg", "cfg.CONF"), ("placement_sched.config", "CONF", "CONF")],
    indirect=True,
    ids=["oslo.config's own", "ours"],
)


@of_each_object
def test_options_registered_late_have_the_values_of_the_file(file):
    plugins = plugins_for(read_settings([file], make_full_conf()))
    hosts = [a_host("cn1"), a_host("cn22")]
    assert run_filters(plugins.filters, hosts, a_spec()).hosts == hosts


@of_each_object
def test_options_registered_in_init_are_known_to_config_validate(file, capsys):
    status = main(["config", "validate", "--config-file", file])
    assert "_made" not in capsys.readouterr().out
    assert status == 0


@of_each_object
def test_options_registered_in_init_follow_the_file_when_it_is_read_again(file):
    plugins_for(read_settings([file], make_full_conf()))
    path = Path(file)
    path.write_text(path.read_text().replace("= yield", "= reject"))
    plugins = plugins_for(read_settings([file], make_full_conf()))
    assert run_filters(plugins.filters, [a_host()], a_spec()).hosts == []


@of_each_object
def test_an_attribute_that_a_filter_sets_is_there_for_a_weigher(file):
    plugins = plugins_for(read_settings([file], make_full_conf()))
    hosts = run_filters(plugins.filters, [a_host("cn1"), a_host("cn22")], a_spec()).hosts
    best, *_ = run_weighers(plugins.weighers, hosts, a_spec()).hosts
    assert best.obj.host == "cn22"


def test_files_are_read_by_what_plugins_see_before_they_are_imported(tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[brought_early]\nracks = 8\n")
    read_settings([str(file)], make_full_conf())
    cfg.CONF.register_opts([cfg.IntOpt("racks")], "brought_early")
    assert cfg.CONF.brought_early.racks == 8
