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
#: What the modules of the folders use.
NOT_PLUGINS = {"__init__.py", "extra_specs_ops.py", "room.py", "utils.py"}
by_name = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.__name__)


@by_name
def test_plugin_has_the_operators_docstring(plugin):
    module = inspect.getmodule(plugin)
    text = f"{module.__doc__ or ''}\n{plugin.__doc__ or ''}"
    assert len(text.split()) >= 15, "an operator should learn here what it refuses, and by what"


@by_name
def test_plugin_has_a_test_module(plugin):
    """It has one of its module's name or its own, or shares one, whose cases name it."""
    module = Path(inspect.getfile(plugin)).relative_to(PACKAGE)
    own = ROOT / "tests" / module.parent / f"test_{module.name}"
    if not own.exists():
        own = own.with_name(f"test_{getattr(plugin, 'name', '')}.py")
    shared = f"from {plugin.__module__} import "
    tests = [path.read_text() for path in own.parent.glob("test_*_filters.py")]
    assert own.exists() or any(shared in text and f"({plugin.__name__}, " in text for text in tests)
    assert "def test_" in (own.read_text() if own.exists() else "".join(tests))


def test_every_module_of_a_plugin_folder_is_found():
    files = {Path(inspect.getfile(plugin)) for plugin in PLUGINS}
    folders = ("filters", "weights", "request_filters", "drivers")
    written = {
        path
        for folder in folders
        for path in (PACKAGE / "scheduler" / folder).glob("*.py")
        if path.name not in NOT_PLUGINS
    }
    assert files == written
