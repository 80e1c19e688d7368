# SPDX-License-Identifier: Apache-2.0
"""The modules of nova that can be imported, and the errors of the others.

The names of nova that are found in the source of a plugin.
"""

import sys
from importlib import import_module

import pytest

from placement_sched.config.conf import CONF, create_conf
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.nova_plugins import finder
from placement_sched.extensions.nova_plugins.finder import NovaName, list_names
from placement_sched.scheduler import filters, weights
from placement_sched.scheduler.plugins import read_settings
from tests.support.repository import ROOT
from tests.support.states import build_host_state

PLUGIN_GUIDE_TEXT = (ROOT / "doc/source/bring_your_filters.rst").read_text()


def test_every_nova_module_of_the_shim_can_be_imported(nova_shim):
    for name in finder.MODULES:
        assert import_module(name).__name__ == name


@pytest.mark.parametrize("name", [name for name, sources in finder.MODULES.items() if sources])
def test_guide_names_every_nova_module_of_the_shim(name):
    package, _, module = name.rpartition(".")
    listed = f"``{name}``" in PLUGIN_GUIDE_TEXT or (
        f"``{package}``" in PLUGIN_GUIDE_TEXT and f"``{module}``" in PLUGIN_GUIDE_TEXT
    )
    assert listed or package in {"nova.objects", "oslo.config", "oslo.serialization", "oslo.utils"}


def test_nova_shim_classes_are_those_of_placement_sched(nova_shim):
    assert import_module("nova.scheduler.filters").BaseHostFilter is filters.BaseHostFilter
    assert import_module("nova.scheduler.weights").BaseHostWeigher is weights.BaseHostWeigher
    own = import_module("placement_sched.scheduler.filters.disk_filter").DiskFilter
    assert import_module("nova.scheduler.filters.disk_filter").DiskFilter is own


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nova.virt.hardware", "nova.virt is not provided here: it controls hypervisors"),
        ("nova.volume.cinder", "nova.volume is not provided here: it calls cinder"),
        ("nova.quota", "nova.quota is not provided here: it is not part of the interface"),
        ("nova.scheduler.filters.acme", "nova.scheduler.filters.acme is not provided here"),
    ],
)
def test_unsupported_nova_module_is_reported_with_the_reason(nova_shim, name, reason):
    with pytest.raises(ImportError, match=reason) as error:
        import_module(name)
    assert '(see "Bring your filters" in the guide)' in str(error.value)


def test_unsupported_nova_name_is_reported_with_the_reason(nova_shim):
    objects = import_module("nova.objects")
    assert not hasattr(objects, "Quotas")
    with pytest.raises(
        ImportError, match=r"nova\.objects\.Quotas is not provided here: only a part of hosts"
    ):
        exec("from nova.objects import Quotas")  # noqa: S102 - the statement of a plugin


def test_modules_and_names_of_a_nova_fork_are_importable_besides_the_shim(
    nova_shim, tmp_path, monkeypatch
):
    folder = tmp_path / "nova" / "scheduler"
    (folder / "filters").mkdir(parents=True)
    (folder / "mixins.py").write_text("from nova.scheduler.utils import acme\nNAME = acme()\n")
    (folder / "utils.py").write_text("def acme():\n    return 'acme'\n")
    (folder / "filters" / "acme.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_module("nova.scheduler.mixins").NAME == "acme"
    assert import_module("nova.scheduler.filters.acme").VALUE == 1
    assert import_module("nova.scheduler.utils").get_weight_multiplier


def test_options_of_a_nova_fork_are_registered_when_settings_are_read(
    nova_shim, tmp_path, monkeypatch
):
    (tmp_path / "nova").mkdir()
    option = "cfg.IntOpt('acme_option_of_fork', default=3)"
    (tmp_path / "nova" / "conf.py").write_text(
        f"from oslo_config import cfg\nCONF.register_opt({option}, 'filter_scheduler')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OS_FILTER_SCHEDULER__NOVA_SHIM", "true")
    read_settings([], create_conf())
    assert CONF.filter_scheduler.acme_option_of_fork == 3


def test_file_of_a_nova_fork_that_cannot_be_imported_is_reported_at_the_start(
    nova_shim, tmp_path, monkeypatch
):
    (tmp_path / "nova").mkdir()
    (tmp_path / "nova" / "conf.py").write_text("import acme_absent\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OS_FILTER_SCHEDULER__NOVA_SHIM", "true")
    with pytest.raises(ConfigurationError, match=r"nova\.conf cannot be imported: .*acme_absent"):
        read_settings([], create_conf())


def test_nova_submodule_has_the_names_that_the_shim_adds(nova_shim):
    package = import_module("nova.scheduler.filters")
    assert package.utils is import_module("nova.scheduler.filters.utils")
    assert package.utils.aggregate_values_from_key(build_host_state(), "rack") == set()
    assert package.utils.aggregate_values_from_db


def test_installed_nova_takes_precedence_over_the_shim(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    assert not finder.has_real_nova()
    (tmp_path / "nova" / "scheduler").mkdir(parents=True)
    (tmp_path / "nova" / "scheduler" / "manager.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not finder.install()
    assert not finder.is_installed()


PLUGIN_SOURCE = """
import os, nova.conf
from nova import (context as c,
                  objects)
from nova.scheduler import filters, mixins
CONF = nova.conf.CONF
CONF.import_opt("x", "nova.scheduler.filters.ram_filter")
importutils.import_class("nova.scheduler.filters.core_filter")


class A(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        import nova.huawei.tools as tools
        objects.Quotas.get(c.get_admin_context())
        objects.InstanceList.get_active_by_window({})
        objects.InstanceList.get_by_host({})
        return os.nova.thing and tools
"""


def test_every_imported_and_used_nova_name_is_found_with_its_line():
    names = {use.name: use.line for use in list_names(PLUGIN_SOURCE)}
    assert names == {
        "nova.conf": 2,
        "nova.context": 3,
        "nova.objects": 3,
        "nova.scheduler.filters": 5,
        "nova.scheduler.mixins": 5,
        "nova.conf.CONF": 6,
        "nova.scheduler.filters.core_filter": 8,
        "nova.scheduler.filters.BaseHostFilter": 11,
        "nova.huawei.tools": 13,
        "nova.objects.Quotas": 14,
        "nova.context.get_admin_context": 14,
        "nova.objects.InstanceList.get_active_by_window": 15,
        "nova.objects.InstanceList": 15,
    }


def test_imports_only_option_lists_no_used_nova_names():
    found = list_names("import nova.conf\nnova.conf.CONF\n", imports_only=True)
    assert [use.name for use in found] == ["nova.conf"]


@pytest.mark.parametrize(
    ("name", "is_provided", "hint"),
    [
        ("nova.scheduler.filters", True, "change nova.scheduler to placement_sched.scheduler"),
        ("nova.scheduler.filters.utils", True, "change nova.scheduler to"),
        ("nova.conf", True, "change nova.conf to placement_sched.config"),
        ("nova.context", True, "nova.context is provided by the nova shim"),
        ("nova.exception.ComputeHostNotFound", True, "is provided by the nova shim"),
        ("nova.filters", True, "nova.filters is provided by the nova shim"),
        ("nova.scheduler.mixins.Mixin", False, "nova.scheduler.mixins is not provided here"),
        ("nova.objects.Quotas", False, "nova.objects.Quotas is not provided here"),
        ("nova.objects.InstanceList.get_by_host", True, "is provided by the nova shim"),
        (
            "nova.objects.InstanceList.get_active_by_window",
            False,
            "get_active_by_window is not provided here",
        ),
        ("oslo.config", True, "oslo.config is provided by the nova shim"),
    ],
)
def test_nova_name_is_provided_or_not_and_has_a_hint_how_to_change_it(name, is_provided, hint):
    found = NovaName(1, name)
    assert found.is_provided == is_provided
    assert hint in found.hint
