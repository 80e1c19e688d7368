# SPDX-License-Identifier: Apache-2.0
"""Modules, plugins and functions are small enough to see whole, and modules worth a file.

Upper limits alone would lead to many tiny modules. A package therefore has a maximum of modules,
and several others use a short module.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repository import (
    PACKAGE,
    ROOT,
    format_relative_path,
    list_modules,
    read_importers,
)

PLUGIN_FOLDERS = ("filters", "weights", "request_filters")
#: Packages whose modules are plugins, found by their folder and imported by no other module.
DISCOVERED_PLUGIN_FOLDERS = (*PLUGIN_FOLDERS, "selectors", "drivers")
#: Packages of many modules of a kind: plugins, schemas of a noun, options of a group.
LIST_FOLDERS = (*DISCOVERED_PLUGIN_FOLDERS, "options", "schemas")


def is_plugin(path: Path) -> bool:
    """Return whether a module is a filter, weigher or request filter."""
    return path.parent.name in PLUGIN_FOLDERS and path.stem != "__init__"


def is_module_allowed_to_be_short(path: Path) -> bool:
    """Return whether a module with a single importer may be short."""
    # The core loads modules of an extension by the paths of hooks.
    top = path.parent == PACKAGE or path.parent.parent == PACKAGE / "extensions"
    stands_for_nova = path.parent.name == "nova_plugins"
    return (
        top
        or stands_for_nova
        or path.parent.name in DISCOVERED_PLUGIN_FOLDERS
        or path.stem == "__init__"
    )


def list_functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a module, and nested functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


pytestmark = pytest.mark.slow

MAX_MODULE_LINES, MAX_PLUGIN_LINES, MAX_FUNCTION_LINES = 700, 160, 100
#: The most modules of a package, and the fewest lines of a module that only one other imports.
MAX_MODULES_PER_PACKAGE, MIN_MODULE_LINES = 25, 40


def test_modules_are_short():
    lines = {path: len(path.read_text().splitlines()) for path in list_modules()}
    long = {
        format_relative_path(path): count
        for path, count in lines.items()
        if count > (MAX_PLUGIN_LINES if is_plugin(path) else MAX_MODULE_LINES)
    }
    assert long == {}


def test_packages_have_few_modules():
    crowded = {
        format_relative_path(folder): len(files)
        for folder in sorted({path.parent for path in list_modules()})
        if folder.name not in LIST_FOLDERS
        and len(files := [path for path in folder.glob("*.py") if path.stem != "__init__"])
        > MAX_MODULES_PER_PACKAGE
    }
    assert crowded == {}


def test_short_modules_have_several_importers():
    """Plugins are excepted (doc/decisions/0001)."""
    importers = read_importers()
    splinters = [
        format_relative_path(path)
        for path in list_modules()
        if len(path.read_text().splitlines()) < MIN_MODULE_LINES
        and not is_module_allowed_to_be_short(path)
        and len(importers[path]) < 2
    ]
    assert splinters == []


def test_functions_are_short():
    long = [
        f"{format_relative_path(path)}: {function.name} has {lines}"
        for path in list_modules()
        for function in list_functions(path)
        if (lines := function.end_lineno - function.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_no_function_contains_an_import():
    importing = [
        f"{format_relative_path(path)}:{node.lineno}"
        for path in list_modules()
        for function in list_functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert importing == []


def test_import_contracts_have_no_exceptions():
    """``make lint`` checks the contracts."""
    assert "ignore_imports" not in (ROOT / "setup.cfg").read_text()
