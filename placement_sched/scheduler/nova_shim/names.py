# SPDX-License-Identifier: Apache-2.0
"""Names of nova in the source of a plugin."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from placement_sched.scheduler.nova_shim.finder import (
    MODULES,
    describe_missing,
    fork_paths,
    is_installed,
    sources_of,
)

#: The modules of nova that have a counterpart for imports without the shim.
COUNTERPARTS = {
    "nova.scheduler": "placement_sched.scheduler",
    "nova.conf": "placement_sched.config",
    "nova.api.validation.extra_specs": "placement_sched.scheduler.extra_specs",
}
#: Functions that import the module that a string names. ``import_opt`` is none of them, because it
#: does not import the module of an option that exists.
_IMPORTING = {"import_group", "import_module", "import_class", "import_object"}
#: Modules that provide any name.
_ANY_NAME = {"nova.exception", "nova.compute.task_states"}


class NovaName(NamedTuple):
    """A name of nova or of an old library, with its line in a file."""

    line: int
    name: str

    @property
    def is_provided(self) -> bool:
        """Return whether the shim, or a fork's folder, provides it."""
        package, _, attribute = self.name.rpartition(".")
        if sources_of(self.name) is not None or package in _ANY_NAME:
            return True
        if isinstance(kind := _value_at(package), type):
            return hasattr(kind, attribute)
        return _value_at(self.name) is not None or _is_of_fork(self.name)

    @property
    def counterpart(self) -> tuple[str, str] | None:
        """Return the part of the name to change for imports without shim, and its replacement."""
        for old, new in COUNTERPARTS.items():
            if f"{self.name}.".startswith(f"{old}."):
                path = new + self.name.removeprefix(old)
                return (old, new) if _exists(path) else None
        return None

    @property
    def hint(self) -> str:
        """Return advice for a service that does not enable the shim."""
        if self.counterpart:
            return "change {} to {}".format(*self.counterpart)
        if self.is_provided:
            return f"{self.name} is provided by the nova shim"
        return self.problem

    @property
    def problem(self) -> str:
        """Return why the name is not provided."""
        return describe_missing(_first_missing(self.name))


def list_names(source: str, *, imports_only: bool = False) -> Sequence[NovaName]:
    """List the names of nova that a source uses, sorted by line and each only once.

    Every form of an import counts, also inside functions, and so do names of modules in strings of
    ``importlib.import_module`` and the like. Raises :class:`SyntaxError`.
    """
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_old(alias.name):
                    names.add(NovaName(node.lineno, alias.name))
                    local = alias.asname or alias.name.partition(".")[0]
                    modules[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_old(node.module or ""):
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if alias.name != "*" else str(node.module)
                names.add(NovaName(node.lineno, name))
                modules[alias.asname or alias.name] = name
        elif isinstance(node, ast.Call):
            names.update(_names_in_strings(node))
    if not imports_only:
        names.update(_attributes(tree, modules))
    first_uses = {each.name: each for each in sorted(names, reverse=True)}
    return sorted(first_uses.values())


def _is_old(module: str) -> bool:
    return module.partition(".")[0] in ("nova", "oslo")


def _names_in_strings(call: ast.Call) -> Iterator[NovaName]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for argument in call.args if name in _IMPORTING else ():
        if isinstance(argument, ast.Constant) and _is_old(str(argument.value)):
            yield NovaName(call.lineno, str(argument.value))


def _attributes(tree: ast.AST, modules: Mapping[str, str]) -> Iterator[NovaName]:
    """Yield names read from provided modules, and methods that provided classes lack."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        path = _dotted(node)
        if path is None or path[0] not in modules:
            continue
        name, attributes = modules[path[0]], path[1:]
        while attributes and sources_of(name) is not None:
            name = f"{name}.{attributes.pop(0)}"
        kind = _value_at(name)
        if attributes and isinstance(kind, type) and not hasattr(kind, attributes[0]):
            name = f"{name}.{attributes[0]}"
        if name not in MODULES:
            yield NovaName(node.lineno, name)


def _value_at(name: str) -> Any:
    """Return the object with this name in a module of the shim or of a nova fork, or None."""
    module, _, attribute = name.rpartition(".")
    sources = sources_of(module)
    for path in [module] if sources is not None and is_installed() else sources or ():
        with suppress(Exception):  # of a fork's file: the import of the plugin reports it
            value = getattr(import_module(path), attribute, None)
            if value is not None:
                return value
    return None


def _dotted(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (path := _dotted(node.value)):
        return [*path, node.attr]
    return None


def _is_of_fork(name: str) -> bool:
    package, _, module = name.rpartition(".")
    own_module = any(
        (Path(folder) / f"{module}.py").exists() or (Path(folder) / module).is_dir()
        for folder in fork_paths(package)
    )
    # A name of a module of the fork, which only an import can check.
    return own_module or (bool(package) and sources_of(package) is None and _is_of_fork(package))


def _first_missing(name: str) -> str:
    """Return the shortest beginning of a dotted name that is not provided."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        beginning = ".".join(parts[:end])
        if not NovaName(0, beginning).is_provided:
            return beginning
    return name


def _exists(path: str) -> bool:
    with suppress(ImportError):
        if find_spec(path) is not None:
            return True
    package, _, attribute = path.rpartition(".")
    with suppress(ImportError):
        return hasattr(import_module(package), attribute)
    return False
