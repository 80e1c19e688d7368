# SPDX-License-Identifier: Apache-2.0
"""Plugins that cannot be: one clear line when the service starts, and in ``config validate``."""

import subprocess
import sys

import pytest

from placement_sched.cli.main import main
from placement_sched.scheduler.extra_specs import all_validators
from tests.support.servers import PROGRAM, environment

pytestmark = pytest.mark.slow

#: What is wrong with a module, and what is told of it.
MODULES = {
    "syntax": ("class Half(:\n", "invalid syntax"),
    "import": ("import no_such_thing\n", "No module named 'no_such_thing'"),
    "nova": ("from nova.scheduler import filters\n", "No module named 'nova"),
    "raises": ("raise RuntimeError('first line\\nsecond line')\n", "first line second line"),
    "silent": ("assert False\n", "AssertionError"),
    "leaves": ("import sys\nsys.exit(3)\n", "it ends the process with status 3"),
}
GOOD = """
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
#: Each option that names classes, and what they must be.
OPTIONS = {
    "[filter_scheduler] available_filters": ("RackFilter", "BaseHostFilter"),
    "[filter_scheduler] enabled_filters": ("RackFilter", "BaseHostFilter"),
    "[filter_scheduler] weight_classes": ("RackWeigher", "BaseHostWeigher"),
    "[scheduler] request_filters": ("RackRequest", "BaseRequestFilter"),
    "[scheduler] driver": ("RackDriver", "BaseDriver"),
}
each_option = pytest.mark.parametrize("option", OPTIONS)


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """Let this directory's modules be imported, and forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path / 'x.db'}")
    before = set(sys.modules)
    all_validators.cache_clear()
    yield
    all_validators.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith(("acme_", "nova")):
            del sys.modules[name]


@pytest.fixture
def told(tmp_path, capsys):
    """Give a function that starts a server, and checks its files; return the line both tell."""

    def told(text=""):
        file = tmp_path / "acme.conf"
        file.write_text(text)
        assert main(["serve", "--port", "0", "--config-file", str(file)]) == 1
        (started,) = capsys.readouterr().err.splitlines()
        assert main(["config", "validate", "--config-file", str(file)]) == 1
        (checked,) = capsys.readouterr().out.splitlines()
        line = started.removeprefix("placement-sched: ")
        assert checked == f"error: {line}"
        return line

    return told


def setting(option, value):
    group, name = option.split()
    return f"{group}\n{name} = {value}\n"


@each_option
@pytest.mark.parametrize("kind", MODULES)
def test_module_that_cannot_be_imported(told, tmp_path, option, kind):
    text, words = MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    line = told(setting(option, "acme_rack.RackFilter"))
    assert line.startswith(f"{option}: ")
    assert "'acme_rack.RackFilter' cannot be imported (" in line
    assert words in line


@each_option
def test_module_that_is_not_there(told, option):
    assert "'acme_gone.Rack' cannot be imported (No module named" in told(
        setting(option, "acme_gone.Rack")
    )


@each_option
def test_class_that_is_misspelt_is_told_with_the_one_that_is_meant(told, tmp_path, option):
    (tmp_path / "acme_good.py").write_text(GOOD)
    right, _ = OPTIONS[option]
    line = told(setting(option, f"acme_good.{right}s"))
    assert f"did you mean 'acme_good.{right}'?" in line


@each_option
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nothing", "acme_good.Nothing is not a {base}"),
        ("Demanding", "acme_good.Demanding cannot be created without arguments: "),
        (
            "Failing",
            "acme_good.Failing cannot be created without arguments: first line second line",
        ),
        ("{base}", "acme_good.{base} is the abstract base class"),
    ],
)
def test_class_of_the_wrong_kind(told, tmp_path, option, name, words):
    (tmp_path / "acme_good.py").write_text(GOOD)
    _, base = OPTIONS[option]
    path = f"acme_good.{name.format(base=base)}"
    text = setting(option, path)
    if option.endswith("available_filters"):
        text += f"enabled_filters = {name}\n"
    assert words.format(base=base) in told(text)


@pytest.mark.parametrize(
    ("option", "name", "meant"),
    [
        ("[filter_scheduler] enabled_filters", "ComputFilter", "ComputeFilter"),
        (
            "[filter_scheduler] available_filters",
            "ComputFilter",
            "placement_sched.scheduler.filters.compute_filter.ComputeFilter",
        ),
        (
            "[filter_scheduler] available_filters",
            "nova.scheduler.filters.compute_filter.ComputFilter",
            "ComputeFilter",
        ),
        (
            "[filter_scheduler] weight_classes",
            "RAMWeighr",
            "placement_sched.scheduler.weights.ram.RAMWeigher",
        ),
        (
            "[filter_scheduler] weight_classes",
            "placement_sched.scheduler.weights.cpu.RAMWeigher",
            "placement_sched.scheduler.weights.ram.RAMWeigher",
        ),
        (
            "[filter_scheduler] weight_classes",
            "nova.scheduler.weights.ram.RamWeigher",
            "RAMWeigher",
        ),
        ("[scheduler] request_filters", "forbiden_aggregates", "forbidden_aggregates"),
        ("[scheduler] driver", "filter_schedular", "filter_scheduler"),
        ("[scheduler] driver", "nova.scheduler.chance.ChanceSchedular", "ChanceScheduler"),
    ],
)
def test_unknown_name_is_told_with_the_nearest(told, option, name, meant):
    line = told(setting(option, name))
    assert line.startswith(f"{option}: ")
    assert f"did you mean '{meant}'?" in line


# Installed packages


@pytest.mark.parametrize("family", ["filters", "weighers", "request_filters"])
@pytest.mark.parametrize("kind", MODULES)
def test_announced_module_that_cannot_be_imported(told, installed, tmp_path, family, kind):
    text, words = MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    installed(f"[placement_sched.{family}]\nrack = acme_rack:Rack\n")
    line = told()
    where = f"entry point rack (acme_rack:Rack) of placement_sched.{family}"
    assert line.startswith(f"{where} cannot be loaded: ")
    assert words in line


@pytest.mark.parametrize("kind", MODULES)
def test_announced_validators_that_cannot_be_imported(told, installed, tmp_path, kind):
    text, words = MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    installed("[placement_sched.extra_spec_validators]\nrack = acme_rack\n")
    line = told()
    where = "entry point rack (acme_rack) of placement_sched.extra_spec_validators"
    assert line.startswith(f"{where} cannot be loaded: ")
    assert words in line


def test_announced_class_of_the_wrong_kind(told, installed, tmp_path):
    (tmp_path / "acme_good.py").write_text(GOOD)
    installed("[placement_sched.weighers]\nrack = acme_good:RackFilter\n")
    where = "entry point rack (acme_good:RackFilter) of placement_sched.weighers"
    assert told() == f"{where} is not a BaseHostWeigher"


def test_broken_package_is_told_beside_faults_of_lines(installed, tmp_path, capsys):
    installed("[placement_sched.filters]\nrack = acme_gone:Rack\n")
    file = tmp_path / "acme.conf"
    file.write_text("[api]\nauth_stratgy = noauth2\n")
    assert main(["config", "validate", "--config-file", str(file)]) == 1
    by_line, whole = capsys.readouterr().out.splitlines()
    assert by_line.endswith("did you mean auth_strategy?")
    where = "entry point rack (acme_gone:Rack) of placement_sched.filters"
    assert whole.startswith(f"error: {where} cannot be loaded")


# Plugins that still import nova

#: How a plugin of nova begins, and what is to be changed by line.
NOVAS = {
    "from nova.scheduler import filters": "change nova.scheduler to placement_sched.scheduler",
    "import nova.scheduler.filters.utils": "change nova.scheduler to placement_sched.scheduler",
    "from nova import scheduler": "change nova.scheduler to placement_sched.scheduler",
    "import nova.conf as options": "change nova.conf to placement_sched.config",
    "from nova import conf, i18n": "change nova.conf to placement_sched.config",
    "from nova.api.validation.extra_specs import base": (
        "change nova.api.validation.extra_specs to placement_sched.scheduler.extra_specs"
    ),
    "from nova.objects import fields": "nova.objects has no counterpart here",
    "import nova": "nova has no counterpart here",
}
PAGE = '(see "Plugins written for nova" in doc/source/writing_plugins.rst)'


def written(line):
    """Return a module that begins with this line, indented or not."""
    return f'"""Racks."""\n\nif True:\n    pass\n{line}\n\n\nclass Rack:\n    pass\n'


@pytest.mark.parametrize("line", NOVAS)
def test_import_of_nova_is_told_with_the_line_to_change(told, installed, tmp_path, line):
    file = tmp_path / "acme_rack.py"
    file.write_text(written(line))
    installed("[placement_sched.filters]\nrack = acme_rack:Rack\n")
    assert told().endswith(f"; {file}:5: {NOVAS[line]} {PAGE}")


def test_every_import_of_nova_is_told_at_once(told, tmp_path):
    file = tmp_path / "acme_rack.py"
    file.write_text("import nova.conf\nfrom nova.scheduler import filters\n")
    line = told(setting("[filter_scheduler] enabled_filters", "acme_rack.Rack"))
    first, second = (
        NOVAS["import nova.conf as options"],
        NOVAS["from nova.scheduler import filters"],
    )
    assert f"{file}:1: {first}; {file}:2: {second} {PAGE}" in line


def test_import_of_something_else_is_told_without_nova(told, tmp_path):
    (tmp_path / "acme_rack.py").write_text("import novas\n")
    line = told(setting("[filter_scheduler] enabled_filters", "acme_rack.Rack"))
    assert "No module named 'novas')" in line


@pytest.mark.parametrize("module", ["nova.scheduler", "novas"])
def test_no_other_name_is_suggested_where_the_right_one_imports_what_is_not_there(
    told, tmp_path, module
):
    (tmp_path / "acme_filter.py").write_text(f"import {module}\n")
    line = told(setting("[filter_scheduler] enabled_filters", "acme_filter.RackFilter"))
    assert "did you mean" not in line


def test_base_of_an_installed_nova_is_told_with_the_line_to_change(told, tmp_path, monkeypatch):
    package = tmp_path / "nova" / "scheduler"
    package.mkdir(parents=True)
    (package / "filters.py").write_text("class BaseHostFilter:\n    pass\n")
    for name in ("nova", "nova.scheduler", "nova.scheduler.filters"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    file = tmp_path / "acme_rack.py"
    file.write_text(
        "from nova.scheduler import filters\n\n\nclass Rack(filters.BaseHostFilter):\n    pass\n"
    )
    line = told(setting("[filter_scheduler] enabled_filters", "acme_rack.Rack"))
    change = NOVAS["from nova.scheduler import filters"]
    assert f"acme_rack.Rack is not a BaseHostFilter: its base is nova's; {file}:1: {change}" in line


def test_sample_leaves_out_a_broken_package_with_a_warning(installed, tmp_path):
    (tmp_path / "acme_rack.py").write_text("from nova.scheduler import filters\n")
    installed("[placement_sched.filters]\nrack = acme_rack:Rack\n")
    done = subprocess.run(
        [PROGRAM, "config", "sample"],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment(PYTHONPATH=str(tmp_path)),
        check=False,
    )
    assert done.returncode == 0
    assert "#enabled_filters = " in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("entry point rack (acme_rack:Rack) of placement_sched.filters cannot be")
    assert "change nova.scheduler to placement_sched.scheduler" in line
    assert line.endswith(": the sample lacks its options")
