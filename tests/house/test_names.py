"""A module is named for what it holds; a public class or type alias has one name for one thing."""

import ast
from collections import defaultdict

import pytest

from tests.house.tree import modules, shown

pytestmark = pytest.mark.slow

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins written for nova import these by their names.
KNOWN_TO_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}
#: Type variables that are as short as in the standard library, and stand for any type.
ANY_TYPE = {"K", "P", "T", "V"}


def test_no_module_has_an_empty_name():
    nameless = {
        shown(path) for path in modules() if path.stem in NAMELESS or path.parent.name in NAMELESS
    }
    assert nameless <= KNOWN_TO_PLUGINS


def test_every_module_says_what_it_holds():
    silent = [shown(path) for path in modules() if not path.read_text().startswith('"""')]
    assert silent == []


def test_public_names_of_types_are_unique():
    places = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            for name in names_of_types(node):
                places[name].append(shown(path))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in ANY_TYPE} == {}


def names_of_types(statement):
    """The public classes and type aliases that a statement of a module defines."""
    match statement:
        case ast.ClassDef(name=name):
            names = [name]
        case ast.Assign(targets=targets):
            names = [one.id for one in targets if isinstance(one, ast.Name) and is_camel(one.id)]
        case _:
            names = []
    return [name for name in names if not name.startswith("_")]


def is_camel(name):
    """Whether a name is written as those of classes are."""
    return name[0].isupper() and not (name.isupper() and len(name) > 1)
