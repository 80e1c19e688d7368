# SPDX-License-Identifier: Apache-2.0
"""Where things are in this repository, for tests that check the house itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "placement_sched"
PLUGIN_FOLDERS = ("filters", "weights", "request_filters")
#: Modules of each API: its documents of itself, and the list of its resources (doc/decisions/0001).
DOCUMENTS = ("root", "routes", "versions")
#: Packages of which each module is a plugin: no module names it, it is found by its folder.
FOUND = (*PLUGIN_FOLDERS, "selectors", "drivers", "extra_specs")
#: Packages of which each module is one of a list: a plugin, a noun's schemas, a group's
#: options.
LISTED = (*FOUND, "options", "schemas")


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def is_plugin(path: Path) -> bool:
    """Whether a module is a filter, weigher or request filter."""
    return path.parent.name in PLUGIN_FOLDERS and path.stem != "__init__"


def may_be_short(path: Path) -> bool:
    """Whether a module with one importer may have a few lines all the same."""
    document = path.parent.parent == PACKAGE / "api" and path.stem in DOCUMENTS
    top = path.parent == PACKAGE
    stands_for_nova = path.parent.name == "nova_shim"
    return (
        top or document or stands_for_nova or path.parent.name in FOUND or path.stem == "__init__"
    )


def is_listed(folder: Path) -> bool:
    """Whether the modules of a folder are a list, of which the length says nothing."""
    return folder.name in LISTED


def read_importers() -> dict[Path, set[Path]]:
    """The modules of the package that import each of its modules."""
    importers: dict[Path, set[Path]] = {path: set() for path in modules()}
    for path in importers:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            else:
                continue
            for name in names:
                imported = ROOT / f"{name.replace('.', '/')}.py"
                if imported in importers:
                    importers[imported].add(path)
    return importers


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, nested ones too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def relative_name(path: Path) -> str:
    """A module as a test's id and messages name it."""
    return str(path.relative_to(ROOT))
