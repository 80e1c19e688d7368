"""Plugins that cannot be: one clear line when the service starts, and in ``config validate``."""

import sys

import pytest

from placement_sched.cli.main import main
from placement_sched.scheduler.extra_specs import known

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
    known.all_validators.cache_clear()
    yield
    known.all_validators.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("acme_"):
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
        ("Nothing", "acme_good.Nothing is no {base}"),
        ("Demanding", "acme_good.Demanding cannot be made with no arguments: "),
        (
            "Failing",
            "acme_good.Failing cannot be made with no arguments: first line second line",
        ),
        ("{base}", "acme_good.{base} is the base of all, which does nothing"),
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
    assert line.startswith(f"entry point rack of placement_sched.{family} cannot be loaded: ")
    assert words in line


@pytest.mark.parametrize("kind", MODULES)
def test_announced_validators_that_cannot_be_imported(told, installed, tmp_path, kind):
    text, words = MODULES[kind]
    (tmp_path / "acme_rack.py").write_text(text)
    installed("[placement_sched.extra_spec_validators]\nrack = acme_rack\n")
    line = told()
    assert line.startswith("entry point rack of placement_sched.extra_spec_validators cannot be ")
    assert words in line


def test_announced_class_of_the_wrong_kind(told, installed, tmp_path):
    (tmp_path / "acme_good.py").write_text(GOOD)
    installed("[placement_sched.weighers]\nrack = acme_good:RackFilter\n")
    assert told() == "entry point rack of placement_sched.weighers is no BaseHostWeigher"


def test_broken_package_is_told_beside_faults_of_lines(installed, tmp_path, capsys):
    installed("[placement_sched.filters]\nrack = acme_gone:Rack\n")
    file = tmp_path / "acme.conf"
    file.write_text("[api]\nauth_stratgy = noauth2\n")
    assert main(["config", "validate", "--config-file", str(file)]) == 1
    by_line, whole = capsys.readouterr().out.splitlines()
    assert by_line.endswith("did you mean auth_strategy?")
    assert whole.startswith("error: entry point rack of placement_sched.filters cannot be loaded")
