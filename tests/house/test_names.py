"""A module is named for what it holds, and a public class has one name for one thing."""

import ast
from collections import defaultdict

from tests.house.tree import modules, shown

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins written for nova import these by their names.
KNOWN_TO_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}
#: Names that two packages still share; none may be added.
STILL_SHARED = {"Answer", "Seen"}


def test_no_module_has_an_empty_name():
    nameless = {
        shown(path) for path in modules() if path.stem in NAMELESS or path.parent.name in NAMELESS
    }
    assert nameless <= KNOWN_TO_PLUGINS


def test_every_module_says_what_it_holds():
    silent = [shown(path) for path in modules() if not path.read_text().startswith('"""')]
    assert silent == []


def test_public_class_names_are_unique():
    places = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(shown(path))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in STILL_SHARED} == {}
