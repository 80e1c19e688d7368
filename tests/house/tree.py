"""Where things are in this repository, for tests that check the house itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "placement_sched"
PLUGIN_FOLDERS = ("filters", "weights", "request_filters")


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def is_plugin(path: Path) -> bool:
    """Whether a module is a filter, weigher or request filter."""
    return path.parent.name in PLUGIN_FOLDERS and path.stem != "__init__"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, nested ones too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def shown(path: Path) -> str:
    """A module as a test's id and messages name it."""
    return str(path.relative_to(ROOT))
