"""A module is named for what it holds."""

from tests.house.tree import modules, shown

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins brought from nova import these by their names.
KNOWN_TO_STRANGERS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}


def test_no_module_is_called_for_nothing():
    nameless = {
        shown(path) for path in modules() if path.stem in NAMELESS or path.parent.name in NAMELESS
    }
    assert nameless <= KNOWN_TO_STRANGERS


def test_every_module_says_what_it_holds():
    silent = [shown(path) for path in modules() if not path.read_text().startswith('"""')]
    assert silent == []
