# SPDX-License-Identifier: Apache-2.0
"""Private names of libraries are used only if a decision lists them with a reason."""

import ast
import inspect
import re
import sys
from functools import cache
from importlib import import_module

import pytest

from tests.support.repository import PACKAGE, ROOT, format_relative_path, list_modules

pytestmark = pytest.mark.slow

DECISION_PAGE = ROOT / "doc/decisions/0006-private-names.md"
PRIVATE_NAME_PATTERN = re.compile("_[A-Za-z]")
#: Documented names that begin with an underscore.
DOCUMENTED_NAMES = {
    "_asdict",
    "_exit",
    "_fields",
    "_get_current_object",
    "_getframe",
    "_make",
    "_replace",
    "_upgrade_checks",  # by the docstring of oslo.upgradecheck's UpgradeCommands
}
#: Attributes of nova's weighers, which a third-party weigher may define.
NOVA_ATTRIBUTES = {"_weight_multiplier"}


def test_private_names_of_libraries_are_listed():
    used = {
        (format_relative_path(path), name)
        for path in list_modules()
        for name in find_used_private_names(path)
    }
    assert used == read_names_of_decision_page()


def read_names_of_decision_page():
    """Return the module and the name of each row of the list."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| `(_\w+)` \|", DECISION_PAGE.read_text(), re.MULTILINE)
    assert rows
    return {(f"{PACKAGE.name}/{module}", name) for module, name in rows}


def find_used_private_names(path):
    """Return the private names of libraries that a module imports, reads or inherits."""
    tree = ast.parse(path.read_text())
    used = {*find_imported_private_names(tree), *find_private_attributes(tree)}
    if any(isinstance(node, ast.ClassDef) and node.bases for node in tree.body):
        used.update(find_inherited_private_names(path))
    return used


def find_imported_private_names(tree):
    """Yield the private names in the paths of imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            paths = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for path in paths:
            yield from filter(PRIVATE_NAME_PATTERN.match, path.split("."))


def find_private_attributes(tree):
    """Yield the private attributes that the code reads and the package does not define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE_NAME_PATTERN.match(node.attr):
            yield from (
                {node.attr} - find_private_names_of_package() - DOCUMENTED_NAMES - NOVA_ATTRIBUTES
            )


@cache
def find_private_names_of_package():
    """Return the private names that the package defines."""
    names = set()
    for node in (node for path in list_modules() for node in ast.walk(ast.parse(path.read_text()))):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return names


def find_inherited_private_names(path):
    """Yield the private names of library classes that derived classes use."""
    module = (
        format_relative_path(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )
    for kind in vars(import_module(module)).values():
        if isinstance(kind, type) and kind.__module__ == module:
            for base in filter(is_library_class, kind.__mro__):
                yield from (
                    find_private_names_of_class(kind)
                    & find_private_names_of_class(base) - DOCUMENTED_NAMES
                )


def is_library_class(kind):
    top = kind.__module__.partition(".")[0]
    return top != PACKAGE.name and top not in sys.stdlib_module_names


def find_private_names_of_class(kind):
    """Return the private methods and attributes in the source of a class."""
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return set()
    return set(re.findall(r"\b(?:def |self\.)(_[a-z]\w*)", source))
