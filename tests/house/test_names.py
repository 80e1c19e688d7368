# SPDX-License-Identifier: Apache-2.0
"""Names of modules and functions, docstrings, and imports of tests."""

import ast
import re

import pytest

from tests.house.spdx import LICENSE_TEXT
from tests.support.repository import ROOT, format_relative_path, list_modules

pytestmark = pytest.mark.slow

NONDESCRIPT_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins that were written for nova import these modules.
MODULES_FOR_NOVA_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}
#: First words that are no action.
WORDS_WITHOUT_ACTION = frozenset((
    *("after", "all", "among", "asked", "at", "before", "between", "by", "document", "first"),
    *("given", "ids", "in", "known", "named", "names", "no", "of", "on", "own", "rows", "texts"),
    *("uuids", "values", "without"),
))  # fmt: skip
#: Plugins call or implement these functions, nova has the same names, or a route has the name.
PUBLIC_NAMES = frozenset((
    *("all_drivers", "all_filters", "all_request_filters", "all_selectors", "all_weighers"),
    *("names_all", "of_project", "of_provider", "on_json_loading_failed"),
))  # fmt: skip


def test_functions_do_not_begin_with_a_preposition_or_a_plural():
    """The design requires a verb, but a list of all verbs would be long."""
    verbless = [
        f"{format_relative_path(path)}:{node.lineno} {node.name}"
        for path in list_modules()
        if "nova_plugins" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name not in PUBLIC_NAMES
        if node.name.strip("_").partition("_")[0] in WORDS_WITHOUT_ACTION
        if not any(ast.unparse(item).endswith("property") for item in node.decorator_list)
    ]
    assert verbless == []


def test_module_names_are_descriptive():
    nondescript = {
        format_relative_path(path)
        for path in list_modules()
        if path.stem in NONDESCRIPT_NAMES or path.parent.name in NONDESCRIPT_NAMES
    }
    assert nondescript <= MODULES_FOR_NOVA_PLUGINS


def test_every_module_has_a_docstring():
    undocumented = [
        format_relative_path(path)
        for path in list_modules()
        if not path.read_text().removeprefix(f"# {LICENSE_TEXT}\n").startswith('"""')
    ]
    assert undocumented == []


def test_test_modules_export_only_tests():
    """Helpers are in support modules. A module may import tests to run them."""
    imported = [
        f"{format_relative_path(path)}:{node.lineno} {name.name}"
        for folder in ("tests", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        if re.fullmatch(r"tests\.(.+\.)?test_\w+", node.module or "")
        for name in node.names
        if not name.name.startswith("test_")
    ]
    assert imported == []
