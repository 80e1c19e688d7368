# SPDX-License-Identifier: Apache-2.0
"""The core imports no extension, and no extension imports another."""

import ast

import pytest

from placement_sched.model.extension import find_extensions
from tests.support.repository import EXTENSION_NAMES, PACKAGE, list_modules

FOLDER = PACKAGE / "extensions"


def list_named_extensions(path):
    """Return the extensions that a module imports, or names in a string."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            texts = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            texts = [name.name for name in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts = [node.value]
        else:
            continue
        for text in texts:
            names.update(name for name in EXTENSION_NAMES if f"extensions.{name}" in text)
    return names


def test_every_shipped_extension_is_found_through_its_entry_point():
    assert set(EXTENSION_NAMES) <= find_extensions().keys()


@pytest.mark.parametrize("name", [*EXTENSION_NAMES, "core"])
def test_modules_name_no_other_extension(name):
    modules = {
        path: path.relative_to(FOLDER).parts[0] if path.is_relative_to(FOLDER) else "core"
        for path in list_modules()
    }
    named = {
        str(path.relative_to(PACKAGE)): sorted(list_named_extensions(path) - {name})
        for path, owner in modules.items()
        if owner == name
    }
    assert {path: others for path, others in named.items() if others} == {}
