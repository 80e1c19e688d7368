"""Every shipped plugin tells operators what it does, and is tested."""

import inspect
from pathlib import Path

import pytest

from placement_sched.scheduler.drivers import all_drivers
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weights import all_weighers
from tests.house.tree import PACKAGE, ROOT

PLUGINS = [*all_filters(), *all_weighers(), *all_request_filters(), *all_drivers()]
by_name = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.__name__)


@by_name
def test_plugin_has_the_operators_docstring(plugin):
    module = inspect.getmodule(plugin)
    text = f"{module.__doc__ or ''}\n{plugin.__doc__ or ''}"
    assert len(text.split()) >= 15, "an operator should learn here what it refuses, and by what"


@by_name
def test_plugin_has_a_test_module(plugin):
    module = Path(inspect.getfile(plugin)).relative_to(PACKAGE)
    test = ROOT / "tests" / module.parent / f"test_{module.name}"
    assert test.exists()
    assert "def test_" in test.read_text()


def test_the_families_are_not_empty():
    assert len(PLUGINS) >= 9
