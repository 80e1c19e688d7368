# SPDX-License-Identifier: Apache-2.0
"""Third-party plugins are checked before the first request."""

import random
import sys

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.extensions.nova_plugins import plugin_check
from placement_sched.extensions.nova_plugins.plugin_check import (
    check_source,
    expand_targets,
    find_missing_methods,
    load_classes,
    try_classes,
    try_files,
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
    (finding,) = plugin_check.check_enabled(build_settings(**names))
    assert "has no attribute 'none'" in finding
    assert plugin_check.check_enabled(build_settings()) == []


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
    text = (
        "from placement_sched.extensions.nova_plugins import report_client\n" + FILTER_MODULE_TEXT
    )
    path = "'/resource_providers/' + host_state.uuid"
    name = f"report_client.report_client_singleton().get({path}).json()['name']"
    kinds = load_classes(write_filter("acme_get", f"{name} == host_state.host", text))
    (finding,) = try_classes(kinds, build_settings(filter_scheduler__nova_shim=True))
    assert finding.state == "runs"


PLAIN_FILTER_TEXT = """
from placement_sched.scheduler.filters import BaseHostFilter


class {name}(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return {expression}
"""


@pytest.fixture
def write_tree(tmp_path, monkeypatch):
    """Return a function that writes files, and returns their folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    modules = dict(sys.modules)

    def write(texts):
        for name, text in texts.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    yield write
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]


def format_filter(name="GateFilter", expression="True"):
    return PLAIN_FILTER_TEXT.format(name=name, expression=expression)


def test_check_of_a_folder_imports_only_files_that_define_a_plugin(write_tree):
    ends = "raise SystemExit('imported')"
    filter_text = f"{format_filter()}\n{ends}\n"
    names = ("setup.py", "acme/setup.py", "acme/conftest.py", "acme/test_gate.py", "tests/gate.py")
    names += ("acme/gate_test.py",)
    files = {**dict.fromkeys(names, filter_text), "acme/helper.py": ends}
    files["acme/log.py"] = f"class LogFilter(logging.Filter):\n    pass\n{ends}\n"
    files["acme/old.py"] = f"class OldFilter(object):\n    pass\n{ends}\n"
    folder = write_tree({**files, "acme/right.py": format_filter()})
    targets = expand_targets([str(folder), str(folder / "setup.py")])
    assert targets == [str(folder / "acme/right.py")]
    assert [kind.__name__ for kind in load_classes(targets[0])] == ["GateFilter"]


def test_files_of_one_name_in_two_folders_are_two_modules(write_tree):
    folder = write_tree(
        {
            "a/gate.py": format_filter(),
            "b/gate.py": format_filter(expression="host_state.none"),
            "b/random.py": format_filter("RandomFilter"),
        }
    )
    first, second, third = (
        load_classes(str(folder / name))[0] for name in ("a/gate.py", "b/gate.py", "b/random.py")
    )
    findings = try_classes([first, second, third], build_settings())
    assert [each.state for each in findings] == ["runs", "fails", "runs"]
    assert findings[1].file == str(folder / "b/gate.py")
    assert sys.modules["random"] is random


def test_file_with_relative_imports_is_a_module_of_its_package(write_tree):
    text = "from ..base import Base\n\n\nclass GateFilter(Base):\n    pass\n"
    files = {f"acme_{name}/base.py": format_filter("Base") for name in ("package", "folder")}
    files |= {f"acme_{name}/sub/gate.py": text for name in ("package", "folder")}
    folder = write_tree(
        {**files, "acme_package/__init__.py": "", "acme_package/sub/__init__.py": ""}
    )
    for package in ("acme_package", "acme_folder"):
        (kind,) = load_classes(str(folder / package / "sub/gate.py"))
        assert kind.__module__ == f"{package}.sub.gate"
    files = [str(folder / f"acme_package/{name}.py") for name in ("base", "sub/gate")]
    assert expand_targets(["acme_package"]) == files


def test_package_of_the_same_name_in_another_folder_is_an_error(write_tree):
    files = {f"{folder}/acme_twice/__init__.py": "" for folder in "ab"}
    files |= {f"{folder}/acme_twice/gate.py": format_filter() for folder in "ab"}
    folder = write_tree(files)
    load_classes(str(folder / "a/acme_twice/gate.py"))
    with pytest.raises(ConfigurationError, match=r"acme_twice\.gate is already the module"):
        load_classes(str(folder / "b/acme_twice/gate.py"))


def test_name_that_a_function_assigns_is_no_name_of_nova(write_tree):
    text = """
from nova.scheduler import weights


def collect(weigher):
    weights = []
    weights.append(1.0)
    return weights, weigher.weights


def read():
    return weights.append
"""
    findings = check_source(str(write_tree({"gate.py": text}) / "gate.py"), build_settings().conf)
    missing = [(each.line, each.subject) for each in findings if each.state == "missing"]
    assert missing == [(12, "nova.scheduler.weights.append")]


def test_group_of_options_under_another_name_is_no_undeclared_option(write_tree):
    text = """
from oslo_config import cfg

cfg.CONF.register_group(cfg.OptGroup("acme_iaas"))
cfg.CONF.register_opts([cfg.StrOpt("rack")], group="acme_iaas")
CONF = cfg.CONF.acme_iaas


def read():
    return CONF.rack, cfg.CONF.acme_none
"""
    file = str(write_tree({"acme_gate.py": text}) / "acme_gate.py")
    load_classes(file)
    findings = check_source(file, build_settings().conf)
    assert [each.subject for each in findings] == ["[DEFAULT] acme_none"]


def test_base_class_that_fails_without_its_subclasses_is_no_problem(write_tree):
    text = (
        format_filter("AcmeFilter", "self.read_limit(host_state) > self.limit")
        + """

class LimitFilter(AcmeFilter):
    limit = 0

    def read_limit(self, host_state):
        return 1


class WrongFilter(AcmeFilter):
    limit = None

    def read_limit(self, host_state):
        return 1
"""
    )
    kinds = load_classes(str(write_tree({"acme_base.py": text}) / "acme_base.py"))
    assert find_missing_methods(kinds) == []
    states = {each.subject: each.state for each in try_files(kinds, build_settings())}
    assert states == {
        "acme_base.AcmeFilter": "fails without a subclass: a base class",
        "acme_base.LimitFilter": "runs",
        "acme_base.WrongFilter": "fails",
    }


def test_failure_of_an_enabled_filter_is_no_problem_of_a_weigher(write_filter):
    text = (
        FILTER_MODULE_TEXT
        + """

from placement_sched.scheduler.weights import BaseHostWeigher


class ShadowWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return 1.0
"""
    )
    write_filter("acme_mix", "host_state.none", text)
    names = {
        "available_filters": ["acme_mix.CheckedFilter"],
        "enabled_filters": ["CheckedFilter"],
        "weight_classes": ["acme_mix.ShadowWeigher"],
    }
    settings = build_settings(**{f"filter_scheduler__{key}": value for key, value in names.items()})
    (finding,) = plugin_check.check_enabled(settings)
    assert ": acme_mix.CheckedFilter: fails" in finding
