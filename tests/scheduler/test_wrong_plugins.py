# SPDX-License-Identifier: Apache-2.0
"""Errors for plugins that cannot be loaded, at the start and in ``config validate``."""

import sys

import pytest

from placement_sched.app import check_parts
from placement_sched.cli.main import main
from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.extra_specs import list_validators
from placement_sched.scheduler.plugins import list_announced_opts
from tests.support.states import read_settings_text

#: The text of invalid modules, and a part of the error.
INVALID_PLUGIN_MODULES = {
    "syntax": ("class Half(:\n", "invalid syntax"),
    "import": ("import no_such_thing\n", "No module named 'no_such_thing'"),
    "nova": ("from nova.scheduler import filters\n", "No module named 'nova"),
    "raises": ("raise RuntimeError('first line\\nsecond line')\n", "first line second line"),
    "silent": ("assert False\n", "AssertionError"),
    "leaves": ("import sys\nsys.exit(3)\n", "it ends the process with status 3"),
}
PLUGIN_MODULE_TEXT = """
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.weights import BaseHostWeigher
from placement_sched.scheduler.request_filters import BaseRequestFilter
from placement_sched.scheduler.drivers import BaseDriver


class RackFilter(BaseHostFilter):
    pass


class RackWeigher(BaseHostWeigher):
    pass


class RackRequest(BaseRequestFilter):
    pass


class RackDriver(BaseDriver):
    pass


class Nothing:
    pass


class Demanding(RackFilter, RackWeigher, RackRequest, RackDriver):
    def __init__(self, rack):
        pass


class Failing(RackFilter, RackWeigher, RackRequest, RackDriver):
    def __init__(self):
        raise ValueError("first line\\nsecond line")
"""
FILTER_SECTION = "[filter_scheduler]"
ENABLED_FILTERS_OPTION = f"{FILTER_SECTION} enabled_filters"
#: Each option of classes, with a valid class and the base class.
PLUGIN_CLASSES_BY_OPTION = {
    "[filter_scheduler] available_filters": ("RackFilter", "BaseHostFilter"),
    ENABLED_FILTERS_OPTION: ("RackFilter", "BaseHostFilter"),
    "[filter_scheduler] weight_classes": ("RackWeigher", "BaseHostWeigher"),
    "[scheduler] request_filters": ("RackRequest", "BaseRequestFilter"),
    "[scheduler] driver": ("RackDriver", "BaseDriver"),
}
parametrize_plugin_options = pytest.mark.parametrize("option", PLUGIN_CLASSES_BY_OPTION)


@pytest.fixture(autouse=True)
def make_directory_importable(tmp_path, monkeypatch):
    """Make the modules of this directory importable during the test."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path / 'x.db'}")
    before = set(sys.modules)
    list_validators.cache_clear()
    yield
    list_validators.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith(("acme_", "nova")):
            del sys.modules[name]


@pytest.fixture
def read_startup_error(tmp_path):
    """Return a function that checks a file as a server does, and returns the error."""

    def read_startup_error(text=""):
        with pytest.raises(ConfigurationError) as error:
            check_parts(read_settings_text(tmp_path, text))
        return error.value.detail

    return read_startup_error


def build_setting_line(option, value):
    group, name = option.split()
    return f"{group}\n{name} = {value}\n"


@pytest.mark.parametrize("kind", INVALID_PLUGIN_MODULES)
def test_module_that_cannot_be_imported_is_reported_with_option_and_reason(
    read_startup_error, tmp_path, kind
):
    option, (text, words) = ENABLED_FILTERS_OPTION, INVALID_PLUGIN_MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    line = read_startup_error(build_setting_line(option, "acme_rack.RackFilter"))
    assert line.startswith(f"{option}: ")
    assert "'acme_rack.RackFilter' cannot be imported (" in line
    assert words in line


def test_all_plugins_that_cannot_be_imported_are_reported(read_startup_error, tmp_path):
    (tmp_path / "acme_name.py").write_text("\nimportutils.import_module('x')\n")
    line = read_startup_error(
        "[filter_scheduler]\navailable_filters = acme_name.A\navailable_filters = acme_none.B\n"
        "weight_classes = acme_none.C,acme_name.D\n"
    )
    problem = f"NameError: name 'importutils' is not defined; {tmp_path}/acme_name.py:2"
    assert f"available_filters: 'acme_name.A' cannot be imported ({problem})" in line
    assert "available_filters: 'acme_none.B' cannot be imported (No module named" in line
    assert "weight_classes: 'acme_none.C' cannot be imported (No module named" in line
    assert f"weight_classes: 'acme_name.D' cannot be imported ({problem})" in line


@parametrize_plugin_options
def test_error_for_a_misspelt_plugin_class_has_the_right_name(read_startup_error, tmp_path, option):
    (tmp_path / "acme_good.py").write_text(PLUGIN_MODULE_TEXT)
    right, _ = PLUGIN_CLASSES_BY_OPTION[option]
    line = read_startup_error(build_setting_line(option, f"acme_good.{right}s"))
    assert f"Did you mean 'acme_good.{right}'?" in line


@parametrize_plugin_options
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nothing", "acme_good.Nothing is not a {base}"),
        ("Demanding", "acme_good.Demanding cannot be created without arguments: "),
        ("Failing", "acme_good.Failing cannot be created: ValueError: first line second line; "),
        ("{base}", "acme_good.{base} is the abstract base class"),
    ],
)
def test_class_that_is_no_plugin_is_reported_with_the_reason(
    read_startup_error, tmp_path, option, name, words
):
    (tmp_path / "acme_good.py").write_text(PLUGIN_MODULE_TEXT)
    _, base = PLUGIN_CLASSES_BY_OPTION[option]
    path = f"acme_good.{name.format(base=base)}"
    text = build_setting_line(option, path)
    if option.endswith("available_filters"):
        text += f"enabled_filters = {name}\n"
    assert words.format(base=base) in read_startup_error(text)


SCHEDULER_PACKAGE = "placement_sched.scheduler"


@pytest.mark.parametrize(
    ("option", "name", "expected"),
    [
        (ENABLED_FILTERS_OPTION, "ComputFilter", "ComputeFilter"),
        (
            f"{FILTER_SECTION} available_filters",
            "ComputFilter",
            f"{SCHEDULER_PACKAGE}.filters.compute_filter.ComputeFilter",
        ),
        (
            f"{FILTER_SECTION} available_filters",
            "nova.scheduler.filters.compute_filter.ComputFilter",
            "ComputeFilter",
        ),
        (
            f"{FILTER_SECTION} weight_classes",
            "RAMWeighr",
            f"{SCHEDULER_PACKAGE}.weights.ram.RAMWeigher",
        ),
        (
            f"{FILTER_SECTION} weight_classes",
            f"{SCHEDULER_PACKAGE}.weights.cpu.RAMWeigher",
            f"{SCHEDULER_PACKAGE}.weights.ram.RAMWeigher",
        ),
        (f"{FILTER_SECTION} weight_classes", "nova.scheduler.weights.ram.RamWeigher", "RAMWeigher"),
        ("[scheduler] request_filters", "forbiden_aggregates", "forbidden_aggregates"),
        ("[scheduler] driver", "filter_schedular", "filter_scheduler"),
        ("[scheduler] driver", "nova.scheduler.chance.ChanceSchedular", "ChanceScheduler"),
    ],
)
def test_error_for_an_unknown_plugin_has_the_nearest_name(
    read_startup_error, option, name, expected
):
    line = read_startup_error(build_setting_line(option, name))
    assert line.startswith(f"{option}: ")
    assert f"Did you mean '{expected}'?" in line


@pytest.mark.parametrize(
    ("group", "target", "kind"),
    [
        *(("filters", "acme_rack:Rack", kind) for kind in INVALID_PLUGIN_MODULES),
        ("weighers", "acme_rack:Rack", "import"),
        ("request_filters", "acme_rack:Rack", "import"),
        ("extra_spec_validators", "acme_rack", "leaves"),
    ],
)
def test_entry_point_that_cannot_be_imported_is_reported_with_the_reason(
    read_startup_error, install_package, tmp_path, group, target, kind
):
    text, words = INVALID_PLUGIN_MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    install_package(f"[placement_sched.{group}]\nrack = {target}\n")
    error = read_startup_error()
    entry_point = f"entry point rack ({target}) of placement_sched.{group}"
    assert error.startswith(f"{entry_point} cannot be loaded: ")
    assert words in error


def test_server_and_validation_report_an_entry_point_in_one_line(install_package, tmp_path, capsys):
    install_package("[placement_sched.filters]\nrack = acme_gone:Rack\n")
    file = tmp_path / "acme.conf"
    file.write_text("[api]\nauth_stratgy = noauth2\n")
    assert main(["serve", "--port", "0", "--config-file", str(file)]) == 1
    (start_error,) = capsys.readouterr().err.splitlines()
    assert main(["config", "validate", "--config-file", str(file)]) == 1
    line_error, entry_point_error = capsys.readouterr().out.splitlines()
    assert line_error.endswith("Did you mean auth_strategy?")
    words = "entry point rack (acme_gone:Rack) of placement_sched.filters cannot be loaded: "
    assert entry_point_error.startswith(f"error: {words}")
    assert start_error == f"placement-sched: {entry_point_error.removeprefix('error: ')}"


def test_entry_point_that_is_no_plugin_is_reported_with_the_expected_base_class(
    read_startup_error, install_package, tmp_path
):
    (tmp_path / "acme_good.py").write_text(PLUGIN_MODULE_TEXT)
    install_package("[placement_sched.weighers]\nrack = acme_good:RackFilter\n")
    entry_point = "entry point rack (acme_good:RackFilter) of placement_sched.weighers"
    assert read_startup_error() == f"{entry_point} is not a BaseHostWeigher"


@pytest.mark.parametrize("module", ["nova.scheduler", "novas"])
def test_error_for_an_invalid_import_in_a_plugin_suggests_no_other_name(
    read_startup_error, tmp_path, module
):
    (tmp_path / "acme_filter.py").write_text(f"import {module}\n")
    line = read_startup_error(build_setting_line(ENABLED_FILTERS_OPTION, "acme_filter.RackFilter"))
    assert "Did you mean" not in line


def test_sample_configuration_omits_a_broken_package_and_logs_a_warning(
    install_package, tmp_path, caplog
):
    (tmp_path / "acme_rack.py").write_text("import no_such_thing\n")
    install_package("[placement_sched.filters]\nrack = acme_rack:Rack\n")
    list_announced_opts()
    (line,) = caplog.messages
    assert line.startswith("entry point rack (acme_rack:Rack) of placement_sched.filters cannot be")
    assert line.endswith(": the sample lacks its options")
