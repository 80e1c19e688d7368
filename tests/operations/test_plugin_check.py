# SPDX-License-Identifier: Apache-2.0
"""Third-party plugins are checked before the first request."""

import pytest

from placement_sched.app import provide_placement
from placement_sched.errors import ConfigurationError
from placement_sched.operations import plugin_check
from placement_sched.operations.plugin_check import (
    check_source,
    find_missing_methods,
    load_classes,
    try_classes,
)
from tests.support.states import build_settings

FILTER_MODULE_TEXT = """
from placement_sched import config
from placement_sched.scheduler import filters
from oslo_config import cfg

CONF = config.CONF
CONF.register_opts([cfg.StrOpt("checked_one")], "filter_scheduler")


class CheckedFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return {expression}
"""


@pytest.fixture
def write_filter(tmp_path, monkeypatch):
    """Return a function that writes a module with a filter, and returns its path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write_filter_module(name, expression, text=FILTER_MODULE_TEXT):
        file = tmp_path / f"{name}.py"
        file.write_text(text.format(expression=expression))
        return str(file)

    return write_filter_module


def find_plugin_problems(file):
    settings = build_settings()
    findings = [*check_source(file, settings.conf), *try_classes(load_classes(file), settings)]
    return [str(finding) for finding in findings if finding.problem]


def test_valid_filter_has_no_plugin_problems(write_filter):
    file = write_filter("acme_right", "CONF.filter_scheduler.checked_one is None")
    assert find_plugin_problems(file) == []
    (finding,) = try_classes(load_classes(file), build_settings())
    assert str(finding) == f"{file}: acme_right.CheckedFilter: runs"


def test_undeclared_option_of_a_plugin_is_reported_with_its_line(write_filter):
    file = write_filter("acme_option", "CONF.filter_scheduler.checked_two")
    option, failure = find_plugin_problems(file)
    assert option.startswith(f"{file}:12: [filter_scheduler] checked_two: no option has this name")
    assert "CONF.register_opt(cfg.StrOpt('checked_two'), 'filter_scheduler')" in option
    assert "acme_option.CheckedFilter: fails for a plain request: " in failure
    assert failure.endswith(f'({file}:12), see "Bring your filters" in the guide')


def test_failure_of_a_plugin_in_the_second_request_is_reported(write_filter):
    file = write_filter("acme_image", "spec_obj.num_instances == 1 or host_state.none")
    (failure,) = find_plugin_problems(file)
    assert "fails for a request with extra specs, image and hints: " in failure


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("CONF.acme_name.lower()", "[DEFAULT] acme_name: .*StrOpt('acme_name'))"),
        ("CONF.acme.rack", "[acme] rack: .*StrOpt('rack'), 'acme')"),
        ("config.CONF.acme_top", "[DEFAULT] acme_top: .*StrOpt('acme_top'))"),
        ("CONF.acme.rack_multiplier", "FloatOpt('rack_multiplier', default=1.0), 'acme')"),
        ("str(CONF.acme.rack)", "[acme] rack: "),
    ],
)
def test_undeclared_options_of_a_plugin_are_reported(write_filter, expression, problem):
    file = write_filter("acme_groups", expression)
    (option,) = check_source(file, build_settings().conf)
    start, _, end = problem.partition(".*")
    assert start in str(option)
    assert end in str(option)


@pytest.mark.parametrize(
    "expression",
    [
        "CONF.scheduler_opts if 'acme' in CONF else CONF.filter_scheduler.get('acme')",
        "CONF.filter_scheduler.enabled_filters.count('acme')",
        "CONF.cpu_allocation_ratio and CONF.host_manager.is_it",
    ],
)
def test_declared_options_and_methods_of_a_plugin_are_no_problem(write_filter, expression):
    text = FILTER_MODULE_TEXT + "\nCONF.register_opts([cfg.StrOpt('scheduler_opts')])\n"
    text += "\nCONF.register_opts([cfg.StrOpt('is-it')], 'host_manager')\n"
    assert (
        check_source(write_filter("acme_declared", expression, text), build_settings().conf) == []
    )


def test_syntax_error_of_a_python_2_plugin_says_that_python_2_is_unsupported(write_filter):
    (finding,) = check_source(write_filter("acme_old", "", "print 'x'"), build_settings().conf)
    assert str(finding).endswith(
        "acme_old.py:1: syntax: Missing parentheses in call to 'print': Python 2 is not supported"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "[each.none for each in host_state.aggregates]",
        "[each.none for each in host_state.instances.values()]",
        "host_state.service['none']",
        "spec_obj.instance_group and spec_obj.instance_group.none",
        "spec_obj.image and spec_obj.image.none",
    ],
)
def test_failure_in_a_loop_of_a_plugin_is_reported(write_filter, expression):
    file = write_filter("acme_loop", expression)
    (failure,) = find_plugin_problems(file)
    assert "fails for a" in failure
    assert "none" in failure


def test_plugin_check_passes_instances_with_creation_time_and_system_metadata(write_filter):
    text = FILTER_MODULE_TEXT.replace(
        "return {expression}", "return self.is_old(host_state, spec_obj)"
    )
    text += """
    def is_old(self, host_state, spec_obj):
        for instance in host_state.instances.values():
            if instance.created_at.year > 2000 and instance.system_metadata["image_os_type"]:
                raise ValueError(spec_obj.num_instances)
        return True
"""
    (failure,) = find_plugin_problems(write_filter("acme_values", "", text))
    assert "fails for a plain request: acme_values.CheckedFilter failed: ValueError: 1 " in failure


def test_unknown_host_attribute_is_a_problem_with_advice(write_filter):
    (failure,) = find_plugin_problems(write_filter("acme_hook", "host_state.patch_prefer"))
    assert "An entry point placement_sched.host_attributes can add it" in failure


def test_imports_of_plugins_from_nova_are_problems_with_advice(write_filter):
    file = write_filter("acme_nova", "", "import nova.conf\nfrom nova import quota\n")
    shim, missing = (str(problem) for problem in check_source(file, build_settings().conf))
    assert shim == (
        f"{file}:1: nova.conf: set [filter_scheduler] nova_shim = true, or change nova.conf to "
        "placement_sched.config"
    )
    assert missing.startswith(f"{file}:2: nova.quota is not provided here: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("x = (", "acme_wrong.py:1"), ("import nope_nope", "No module named 'nope_nope'")],
)
def test_plugin_file_that_cannot_be_imported_is_an_error(write_filter, text, reason):
    file = write_filter("acme_wrong", "", text)
    with pytest.raises(ConfigurationError, match="cannot be imported") as error:
        load_classes(file)
    assert reason in error.value.detail


def test_plugins_are_found_by_module_class_or_function(write_filter):
    text = f"{FILTER_MODULE_TEXT}\n\ndef list_filters():\n    return [CheckedFilter]\n"
    write_filter("acme_found", "True", text)
    for target in ("acme_found", "acme_found.CheckedFilter", "acme_found.list_filters"):
        assert [kind.__name__ for kind in load_classes(target)] == ["CheckedFilter"]
    with pytest.raises(ConfigurationError, match="has no attribute 'Checked'"):
        load_classes("acme_found.Checked")


def test_plugin_check_without_arguments_checks_enabled_plugins(write_filter):
    write_filter("acme_enabled", "host_state.none")
    path = "acme_enabled.CheckedFilter"
    options = {"available_filters": [path], "enabled_filters": ["CheckedFilter"]}
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    (finding,) = plugin_check.check_enabled(build_settings(**names), provide_placement)
    assert "has no attribute 'none'" in finding.problem
    assert plugin_check.check_enabled(build_settings(), provide_placement) == []


def test_missing_temporary_folder_during_a_plugin_check_is_a_finding(
    write_filter, monkeypatch, tmp_path
):
    kinds = load_classes(write_filter("acme_disk", "True"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    (finding,) = try_classes(kinds, build_settings())
    assert "the temporary database of the dry run failed: " in finding.problem
    assert "No such file or directory" in finding.problem


def test_method_missing_in_the_base_class_of_plugins_is_reported(write_filter):
    file = write_filter("acme_method", "spec_obj.vcpus < 99 or self.filter_reject(host_state)")
    kinds = load_classes(file)
    assert not [finding for finding in try_classes(kinds, build_settings()) if finding.problem]
    (finding,) = find_missing_methods(kinds)
    assert str(finding).startswith(f"{file}: CheckedFilter.filter_reject: the class calls this")


def test_method_that_a_plugin_assigns_to_itself_is_no_problem(write_filter):
    text = (
        FILTER_MODULE_TEXT
        + """
    def __init__(self):
        self.passes = bool
"""
    )
    file = write_filter("acme_assigned", "self.passes(1)", text)
    assert find_missing_methods(load_classes(file)) == []


def test_dry_run_of_a_plugin_reads_the_placement_api(write_filter):
    text = "from placement_sched.scheduler.nova_shim import report_client\n" + FILTER_MODULE_TEXT
    path = "'/resource_providers/' + host_state.uuid"
    name = f"report_client.report_client_singleton().get({path}).json()['name']"
    kinds = load_classes(write_filter("acme_get", f"{name} == host_state.host", text))
    (finding,) = try_classes(
        kinds, build_settings(filter_scheduler__nova_shim=True), provide_placement
    )
    assert finding.state == "runs"
