# SPDX-License-Identifier: Apache-2.0
"""Errors for plugins that import nova while nova_shim is not set."""

import sys

import pytest

from placement_sched.app import check_parts
from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.extra_specs import list_validators
from tests.scheduler.conftest import install_package as install_package  # noqa: PLC0414 - a fixture
from tests.support.states import read_settings_text

#: Imports of plugins for nova, and the change that the error suggests.
ADVICE_BY_NOVA_IMPORT = {
    "from nova.scheduler import filters": "change nova.scheduler to placement_sched.scheduler",
    "from nova import conf, i18n": "change nova.conf to placement_sched.config",
    "from nova.api.validation.extra_specs import base": (
        "nova.api.validation.extra_specs.base is provided by the nova shim"
    ),
    "import nova.conf": "change nova.conf to placement_sched.config",
    "from nova.objects import fields": "nova.objects.fields is provided by the nova shim",
}
NOVA_SHIM_ADVICE = (
    'or set [filter_scheduler] nova_shim = true (see "Bring your filters" in the guide)'
)
ENABLED_RACK_TEXT = "[filter_scheduler]\nenabled_filters = acme_rack.Rack\n"


@pytest.fixture
def read_startup_error(tmp_path, monkeypatch):
    """Return a function that checks a file as a server does."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path / 'x.db'}")
    modules = set(sys.modules)
    list_validators.cache_clear()

    def read_startup_error(text=""):
        with pytest.raises(ConfigurationError) as error:
            check_parts(read_settings_text(tmp_path, text))
        return error.value.detail

    yield read_startup_error
    list_validators.cache_clear()
    for name in set(sys.modules) - modules:
        if name.startswith(("acme_", "nova")):
            del sys.modules[name]


def build_plugin_text(line):
    """Return a module that begins with this line, indented or not."""
    return f'"""Racks."""\n\nif True:\n    pass\n{line}\n\n\nclass Rack:\n    pass\n'


@pytest.mark.parametrize("line", ADVICE_BY_NOVA_IMPORT)
def test_error_for_an_import_of_nova_has_the_line_to_change(
    read_startup_error, install_package, tmp_path, line
):
    file = tmp_path / "acme_rack.py"
    file.write_text(build_plugin_text(line))
    install_package("[placement_sched.filters]\nrack = acme_rack:Rack\n")
    error = read_startup_error()
    assert f"; {file}:5: {ADVICE_BY_NOVA_IMPORT[line]}" in error
    assert error.endswith(f"; {NOVA_SHIM_ADVICE}")


def test_error_lists_every_import_of_nova(read_startup_error, tmp_path):
    file = tmp_path / "acme_rack.py"
    file.write_text("import nova.conf\nfrom nova.scheduler import filters\n")
    line = read_startup_error(ENABLED_RACK_TEXT)
    first, second = (
        ADVICE_BY_NOVA_IMPORT["import nova.conf"],
        ADVICE_BY_NOVA_IMPORT["from nova.scheduler import filters"],
    )
    assert f"{file}:1: {first}; {file}:2: {second}; {NOVA_SHIM_ADVICE}" in line


def test_error_for_a_base_class_of_nova_has_the_line_to_change(
    read_startup_error, tmp_path, monkeypatch
):
    package = tmp_path / "nova" / "scheduler"
    package.mkdir(parents=True)
    (package / "filters.py").write_text("class BaseHostFilter:\n    pass\n")
    for name in ("nova", "nova.scheduler", "nova.scheduler.filters"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    file = tmp_path / "acme_rack.py"
    file.write_text(
        "from nova.scheduler import filters\n\n\nclass Rack(filters.BaseHostFilter):\n    pass\n"
    )
    line = read_startup_error(ENABLED_RACK_TEXT)
    change = ADVICE_BY_NOVA_IMPORT["from nova.scheduler import filters"]
    assert f"acme_rack.Rack is not a BaseHostFilter: its base is nova's; {file}:1: {change}" in line
