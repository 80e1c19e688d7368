# SPDX-License-Identifier: Apache-2.0
"""Import finder for the modules of nova that plugins use.

A fork is a folder ``nova`` on ``sys.path`` that adds modules or names to nova.
"""

import ast
import builtins
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module, metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from oslo_config import cfg

from placement_sched.config.conf import CONF
from placement_sched.extensions.nova_plugins.missing import (
    build_attribute_error,
    build_missing_error,
    describe_missing,
)
from placement_sched.model.document import set_attribute_error

_SHIM = "placement_sched.extensions.nova_plugins"
_SCHEDULER = "placement_sched.scheduler"
_OBJECTS = (
    *("aggregate", "base", "cell_mapping", "compute_node", "flavor", "host_mapping", "image_meta"),
    *("instance", "instance_group", "instance_mapping", "request_spec", "service"),
)
#: Packages without names of their own.
_PACKAGES = (
    *("nova", "nova.api", "nova.api.validation", "nova.compute", "nova.db.main", "nova.openstack"),
    *("nova.openstack.common", "nova.scheduler", "nova.scheduler.client", "oslo", "oslo.config"),
)
#: Modules from Mitaka and earlier, whose options plugins import with ``cfg.CONF.import_opt``. They
#: are empty, because ``cfg.CONF`` already has the options.
_OPTION_MODULES = (
    *("nova.compute.resource_tracker", "nova.netconf", "nova.scheduler.driver"),
    *("nova.scheduler.scheduler_options", "nova.service"),
)

#: Each provided module of nova, with the modules of this service that provide its names. A module
#: without such modules is an empty package.
MODULES: dict[str, tuple[str, ...]] = {
    "nova.api.validation.extra_specs": (f"{_SCHEDULER}.extra_specs",),
    "nova.api.validation.extra_specs.base": (f"{_SCHEDULER}.extra_specs",),
    "nova.availability_zones": (f"{_SHIM}.objects",),
    "nova.compute.provider_tree": (f"{_SHIM}.provider_tree",),
    "nova.compute.task_states": (f"{_SHIM}.task_states",),
    "nova.compute.vm_states": (f"{_SHIM}.vm_states",),
    "nova.conf": (f"{_SHIM}.conf",),
    "nova.config": (f"{_SHIM}.conf",),
    "nova.context": (f"{_SHIM}.context",),
    "nova.db": (f"{_SHIM}.objects",),
    "nova.db.api": (f"{_SHIM}.objects",),
    "nova.db.main.api": (f"{_SHIM}.objects",),
    "nova.exception": (f"{_SHIM}.exception",),
    "nova.filters": (f"{_SHIM}.filters",),
    "nova.flags": (f"{_SHIM}.conf",),
    "nova.i18n": (f"{_SHIM}.i18n",),
    "nova.objects": (f"{_SHIM}.objects",),
    **{f"nova.objects.{name}": (f"{_SHIM}.objects",) for name in _OBJECTS},
    "nova.objects.fields": (f"{_SHIM}.fields",),
    "nova.openstack.common.cfg": (f"{_SHIM}.conf", "oslo_config.cfg"),
    "nova.openstack.common.gettextutils": (f"{_SHIM}.i18n",),
    "nova.openstack.common.importutils": ("oslo_utils.importutils",),
    "nova.openstack.common.jsonutils": ("oslo_serialization.jsonutils",),
    "nova.openstack.common.log": ("oslo_log.log",),
    "nova.openstack.common.timeutils": ("oslo_utils.timeutils",),
    "nova.scheduler.client.report": (f"{_SHIM}.report_client",),
    "nova.scheduler.filters": (f"{_SCHEDULER}.filters",),
    "nova.scheduler.filters.utils": (f"{_SCHEDULER}.filters.utils", f"{_SHIM}.objects"),
    "nova.scheduler.host_manager": (f"{_SCHEDULER}.host_state",),
    "nova.scheduler.utils": (f"{_SHIM}.functions", f"{_SCHEDULER}.utils"),
    "nova.scheduler.weights": (f"{_SCHEDULER}.weights",),
    "nova.servicegroup": (f"{_SHIM}.servicegroup",),
    "nova.servicegroup.api": (f"{_SHIM}.servicegroup",),
    "nova.utils": (f"{_SHIM}.functions",),
    "nova.weights": (f"{_SHIM}.weights",),
    **dict.fromkeys((*_PACKAGES, *_OPTION_MODULES), ()),
    "oslo.config.cfg": (f"{_SHIM}.conf", "oslo_config.cfg"),
    "oslo.serialization": ("oslo_serialization",),
    "oslo.serialization.jsonutils": ("oslo_serialization.jsonutils",),
    "oslo.utils": ("oslo_utils",),
    "oslo.utils.timeutils": ("oslo_utils.timeutils",),
}
#: The packages of nova whose modules are provided by modules of this service with the same name.
_SAME_NAMES = {
    "nova.scheduler.filters": f"{_SCHEDULER}.filters",
    "nova.scheduler.weights": f"{_SCHEDULER}.weights",
}
#: The modules of nova that have a counterpart for imports without the shim.
COUNTERPARTS = {
    "nova.scheduler": "placement_sched.scheduler",
    "nova.conf": "placement_sched.config",
    "nova.api.validation.extra_specs": "placement_sched.scheduler.extra_specs",
}
#: Functions that import the module that a string names. ``import_opt`` is left out, because
#: ``CONF.import_opt`` does not import the module of an option that exists.
_IMPORTING = {"import_group", "import_module", "import_class", "import_object"}
#: Modules that provide any name.
_ANY_NAME = {"nova.exception", "nova.compute.task_states"}


@cache
def find_source_modules(name: str) -> tuple[str, ...] | None:
    """List the modules of this service that provide a module of nova.

    Returns None if the shim does not provide the module.
    """
    if name in MODULES:
        return MODULES[name]
    package, _, module = name.rpartition(".")
    if package in _SAME_NAMES:
        own = f"{_SAME_NAMES[package]}.{module}"
        return (own,) if find_spec(own) is not None else None
    return None


def has_real_nova() -> bool:
    """Return whether nova itself is installed, which then takes precedence."""
    try:
        metadata.distribution("nova")
    except metadata.PackageNotFoundError:
        return any((Path(folder) / "nova/scheduler/manager.py").exists() for folder in sys.path)
    return True


def fork_paths(name: str) -> list[str]:
    """List the folders on ``sys.path`` that add modules to a package of nova."""
    parts = name.split(".")
    folders = (Path(folder or ".").joinpath(*parts) for folder in sys.path)
    return [str(folder) for folder in folders if folder.is_dir()]


def fork_files(name: str) -> list[Path]:
    """List a fork's files on ``sys.path`` that extend a module of the shim."""
    paths = [Path(folder or ".").joinpath(*name.split(".")) for folder in sys.path]
    files = (file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py"))
    return [file for file in files if file.is_file()]


class _ShimLoader(Loader):
    """Loader that fills a module of nova with names of this service."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None, so that Python creates the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Copy names from this service, and run a fork's file for the module.

        Access to any other name raises an error with the reason why the name is missing.
        """
        sources = [import_module(source) for source in find_source_modules(module.__name__) or ()]
        for source in reversed(sources):
            names = {key: value for key, value in vars(source).items() if key[:2] != "__"}
            # Submodules are imported by their nova names, and may then have further names.
            submodules = {key for key in names if f"{source.__name__}.{key}" in sys.modules}
            vars(module).update({key: names[key] for key in names.keys() - submodules})
        for file in fork_files(module.__name__):
            exec(compile(file.read_text(), str(file), "exec"), vars(module))  # noqa: S102 - a module

        def get_missing(name: str) -> Any:
            full_name = f"{module.__name__}.{name}"
            if not name.startswith("__") and find_source_modules(full_name) is not None:
                return import_module(full_name)
            for source in sources:
                if hasattr(source, "__getattr__"):
                    return source.__getattr__(name)
            if is_of_fork(full_name):  # Python tries the attribute before it imports the module
                raise AttributeError(name)
            raise build_missing_error(full_name)

        module.__getattr__ = get_missing  # type: ignore[method-assign] # PEP 562


class ShimFinder(MetaPathFinder):
    """Finder of the modules of nova that the shim or a fork provides."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of nova.

        Raises :class:`ImportError`, with the reason, if the module is not provided.
        """
        if not is_of_nova(name):
            return None
        if find_source_modules(name) is not None:
            # Every module is a package, so that this finder also runs for missing submodules.
            spec = ModuleSpec(name, _ShimLoader(), is_package=True)
            spec.submodule_search_locations = fork_paths(name)
            return spec
        package = name.rpartition(".")[0]
        fork_spec: importlib.machinery.ModuleSpec | None = PathFinder.find_spec(
            name, [*(path or ()), *fork_paths(package)]
        )
        if fork_spec is None and name.startswith("nova."):
            raise build_missing_error(name, partial(ImportError, name=name))
        return fork_spec


def is_installed() -> bool:
    """Return whether the modules of the shim are importable."""
    return any(isinstance(each, ShimFinder) for each in sys.meta_path)


def install() -> bool:
    """Make the modules importable for the life of the process.

    Returns False and changes nothing if nova itself is installed.
    """
    if is_installed():
        return True
    if has_real_nova():
        return False
    sys.meta_path.insert(0, ShimFinder())
    set_attribute_error(build_attribute_error)
    cfg.CONF = CONF  # as in nova, options registered on either object are options of both
    # nova's commands install ``_`` as a builtin, and old plugins use it without an import.
    vars(builtins).setdefault("_", lambda text: text)
    return True


class NovaName(NamedTuple):
    """A name of nova or of an old library, with its line in a file."""

    line: int
    name: str

    @property
    def is_provided(self) -> bool:
        """Return whether the shim or a fork provides the name."""
        package, _, attribute = self.name.rpartition(".")
        if find_source_modules(self.name) is not None or package in _ANY_NAME:
            return True
        if isinstance(kind := _value_at(package), type):
            return hasattr(kind, attribute)
        return _value_at(self.name) is not None or is_of_fork(self.name)

    @property
    def counterpart(self) -> tuple[str, str] | None:
        """Return the part of the name to replace, and its replacement, or None.

        With the replacement, the import works without the shim.
        """
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
    """List the names of nova in a plugin's source, once each, sorted by line.

    Every form of an import counts, also inside functions, and so do names of modules in strings of
    ``importlib.import_module`` and similar functions. Raises :class:`SyntaxError`.
    """
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_of_nova(alias.name):
                    names.add(NovaName(node.lineno, alias.name))
                    local = alias.asname or alias.name.partition(".")[0]
                    modules[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and not node.level and is_of_nova(node.module or ""):
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


def is_of_nova(module: str) -> bool:
    """Return whether a module is of nova, or of the old namespace of oslo."""
    return module.partition(".")[0] in ("nova", "oslo")


def _names_in_strings(call: ast.Call) -> Iterator[NovaName]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for argument in call.args if name in _IMPORTING else ():
        if isinstance(argument, ast.Constant) and is_of_nova(str(argument.value)):
            yield NovaName(call.lineno, str(argument.value))


def _attributes(tree: ast.AST, modules: Mapping[str, str]) -> Iterator[NovaName]:
    """Yield names read from imported modules, and methods missing in classes."""
    for node, local_names in _iterate_attributes(tree):
        path = _dotted(node)
        if path is None or path[0] not in modules or path[0] in local_names:
            continue
        name, attributes = modules[path[0]], path[1:]
        while attributes and find_source_modules(name) is not None:
            name = f"{name}.{attributes.pop(0)}"
        kind = _value_at(name)
        if attributes and isinstance(kind, type) and not hasattr(kind, attributes[0]):
            name = f"{name}.{attributes[0]}"
        if name not in MODULES:
            yield NovaName(node.lineno, name)


def _iterate_attributes(
    node: ast.AST, local_names: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.Attribute, frozenset[str]]]:
    """Yield each attribute that is read, with the local names of its function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = list(ast.walk(node))
        arguments = {each.arg for each in inner if isinstance(each, ast.arg)}
        stored = {
            each.id
            for each in inner
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        local_names |= arguments | stored
    if isinstance(node, ast.Attribute):
        yield node, local_names
    for child in ast.iter_child_nodes(node):
        yield from _iterate_attributes(child, local_names)


def _value_at(name: str) -> Any:
    """Return the object with this name in the shim or in a fork, or None."""
    module, _, attribute = name.rpartition(".")
    sources = find_source_modules(module)
    for path in [module] if sources is not None and is_installed() else sources or ():
        with suppress(Exception):  # from a fork's file. The import of the plugin reports it.
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


def is_of_fork(name: str) -> bool:
    """Return whether a fork has a module, or the module of a name."""
    package, _, module = name.rpartition(".")
    own_module = any(
        (Path(folder) / f"{module}.py").exists() or (Path(folder) / module).is_dir()
        for folder in fork_paths(package)
    )
    # Names in a module of the fork count as provided: only an import can check them.
    return own_module or (
        bool(package) and find_source_modules(package) is None and is_of_fork(package)
    )


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
