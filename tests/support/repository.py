# SPDX-License-Identifier: Apache-2.0
"""Folders, modules and make targets, for tests of the repository's rules."""

import ast
import re
import shutil
from configparser import ConfigParser
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "placement_sched"
#: The shipped extensions.
EXTENSION_NAMES = sorted(path.parent.name for path in PACKAGE.glob("extensions/*/__init__.py"))
MAKEFILE_TEXT = (ROOT / "Makefile").read_text()
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE_TEXT, re.MULTILINE))
#: Files that a copy of the repository does not need.
IGNORED_COPY_PATTERNS = shutil.ignore_patterns(
    *(".git", ".debian", ".venv*", "build", "dist", "*.egg-info", "__pycache__"),
    *(".*_cache", "*.db*", "out"),
)


def list_modules() -> list[Path]:
    """Return every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def read_importers(*folders: Path) -> dict[Path, set[Path]]:
    """Return the importers of each module of the package, or of other folders."""
    modules = sorted(path for folder in folders or (PACKAGE,) for path in folder.rglob("*.py"))
    importers: dict[Path, set[Path]] = {path: set() for path in modules}
    for path in importers:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
            elif isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            else:
                continue
            for name in names:
                imported = ROOT / f"{name.replace('.', '/')}.py"
                if imported in importers:
                    importers[imported].add(path)
    return importers


def read_setup_cfg(folder: Path = ROOT) -> ConfigParser:
    """Return the metadata of the package in a folder."""
    setup = ConfigParser()
    setup.read(folder / "setup.cfg")
    return setup


def read_requirements(*extras: str) -> list[Requirement]:
    """Return the requirements of the package and of its extras."""
    setup = read_setup_cfg()
    lists = [setup["options"]["install_requires"]]
    lists += [setup["options.extras_require"][name] for name in extras]
    lines = "\n".join(lists).split("\n")
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def format_relative_path(path: Path) -> str:
    """Return a module's path in the repository, as test ids and messages show it."""
    return str(path.relative_to(ROOT))
