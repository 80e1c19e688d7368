"""Modules, plugins and functions stay small enough to see whole."""

import ast

import pytest

from tests.house.tree import functions, is_plugin, modules, shown

MODULE, PLUGIN, FUNCTION = 400, 160, 60


@pytest.mark.parametrize("path", modules(), ids=shown)
def test_module_is_short(path):
    assert len(path.read_text().splitlines()) <= (PLUGIN if is_plugin(path) else MODULE)


def test_functions_are_short():
    long = [
        f"{shown(path)}: {function.name} has {function.end_lineno - function.lineno + 1} lines"
        for path in modules()
        for function in functions(path)
        if function.end_lineno - function.lineno + 1 > FUNCTION
    ]
    assert long == []


def test_no_function_imports():
    importing = [
        f"{shown(path)}:{node.lineno}"
        for path in modules()
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert importing == []
