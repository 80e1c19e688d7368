# SPDX-License-Identifier: Apache-2.0
"""Checks of third-party plugins: imports of nova, options, and a dry run."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

from oslo_config import cfg

from placement_sched.config.conf import CONF
from placement_sched.config.settings import Conf, Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import ConfigurationError, Error, format_one_line
from placement_sched.explain.values import ExplanationView
from placement_sched.extensions.nova_plugins.finder import NovaName, is_installed, list_names
from placement_sched.model.clock import utcnow
from placement_sched.operations.fleet.load import apply
from placement_sched.operations.fleet.merge import merge
from placement_sched.operations.prepare import open_temporary_database
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.filtering import get_filter
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.affinity_filter import ServerGroupAntiAffinityFilter
from placement_sched.scheduler.plugin import (
    collect_missing,
    format_advice,
    get_class_path,
    has_overrides,
    tolerate_failures,
)
from placement_sched.scheduler.plugins import (
    describe_import_error,
    describe_syntax_error,
    get_plugins,
    load_plugin,
)
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.weights import BaseHostWeigher, wrap_weigher
from placement_sched.store.compute import instances

_FILTER_METHODS = (
    "rejection",
    "prepare",
    "evaluate_hosts",
    "host_passes",
    "_filter_one",
    "filter_all",
)
#: Methods by base class. A class is a plugin if it implements any of them.
_METHODS: Mapping[type, tuple[str, ...]] = {
    BaseHostFilter: _FILTER_METHODS,
    BaseHostWeigher: ("weigh_hosts", "weights", "_weigh_object", "weigh_objects"),
}
#: The subject of a finding about a file that is not Python 3.
SYNTAX = "syntax"
_GROUP, *_INSTANCES = (f"00000000-0000-4000-8000-{number:012d}" for number in range(1, 5))
_OWNER = {"project": "check", "user": "check"}
_SIZES = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
_METADATA = {"check": "1"}
#: The cloud of the dry run, as a fleet file, with an object of each kind that plugins read.
_CLOUD: Mapping[str, Any] = {
    "version": 1,
    "flavors": [{"name": "check", **_SIZES, "extra_specs": _METADATA}],
    "server_groups": [{"name": "check", "uuid": _GROUP, "policy": "anti-affinity", **_OWNER}],
    "aggregates": [
        {
            "name": "check",
            "availability_zone": "check",
            "metadata": _METADATA,
            "hosts": "check[1-4]",
        }
    ],
    "hosts": [
        {
            "host": "check[1-4]",
            "vcpus": 16,
            "memory_mb": 65536,
            "local_gb": 1000,
            "hypervisor_type": "QEMU",
            "hypervisor_version": 8_002_000,
            "supported_hv_specs": [["x86_64", "kvm", "hvm"]],
            "stats": {"num_instances": "1"},
            "traits": ["HW_CPU_X86_AVX2"],
        }
    ],
    # The last host has no instance, so that it passes the anti-affinity filter.
    "instances": [
        {
            **_OWNER,
            "name": "check[1-3]",
            "uuid": _INSTANCES,
            "host": "check[1-3]",
            "flavor": "check",
            "server_group": "check",
            "metadata": _METADATA,
            "system_metadata": {"image_os_type": "linux"},
        }
    ],
}
_FLAVOR = {"id": 1, "name": "check", **_SIZES}
_PLAIN = {"flavor": {**_FLAVOR, "extra_specs": {}}, "num_instances": 1, "project_id": "check"}
#: The requests of the dry run: with and without extra specs, image, hints, group and instance.
REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "a plain request": _PLAIN,
    "a request with extra specs, image and hints": {
        **_PLAIN,
        "user_id": "check",
        "num_instances": 2,
        "flavor": {**_FLAVOR, "extra_specs": {"hw:cpu_policy": "shared", "quota:cpu_shares": "10"}},
        "image": {"name": "check", "properties": {"os_type": "linux", "hw_disk_bus": "virtio"}},
        "scheduler_hints": {"check": ["1"]},
        "availability_zone": None,
    },
    "a move of an instance of a server group": {
        **_PLAIN,
        "user_id": "check",
        "instance_uuids": _INSTANCES[:1],
        "ignore_hosts": ["check1"],
        "scheduler_hints": {"group": [_GROUP], "source_host": ["check1"]},
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a name, an option or a dry run of a plugin.

    ``state`` is the result in a few words. ``problem`` is empty if there is no problem.
    """

    file: str
    line: int
    subject: str
    state: str
    problem: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = self.problem or self.state
        is_named = text.startswith(f"{self.subject} ")
        return f"{place}: {text}" if is_named else f"{place}: {self.subject}: {text}"


def check_source(file: str, conf: Conf) -> list[Finding]:
    """List findings about nova's names and undeclared options in a file."""
    try:
        source = Path(file).read_text()
        names = list_names(source)
    except (OSError, UnicodeDecodeError) as failure:
        return [Finding(file, 0, "source", "unreadable", format_one_line(failure))]
    except SyntaxError as failure:
        problem = describe_syntax_error(failure)
        return [Finding(file, failure.lineno or 0, SYNTAX, "invalid", problem)]
    findings = [_describe_name(file, name) for name in names]
    return [*findings, *_find_undeclared_options(file, source, conf)]


def _describe_name(file: str, name: NovaName) -> Finding:
    if not name.is_provided:
        return Finding(file, name.line, name.name, "missing", name.problem)
    if is_installed():
        return Finding(file, name.line, name.name, "provided by the nova shim")
    problem = "set [filter_scheduler] nova_shim = true"
    problem += f", or {name.hint}" if name.counterpart else ""
    return Finding(file, name.line, name.name, "needs the nova shim", problem)


def _find_undeclared_options(file: str, source: str, conf: Conf) -> Iterator[Finding]:
    tree = ast.parse(source)
    declared = {
        str(argument.value).replace("-", "_")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _get_last_name(node.func).endswith("Opt")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    reported = set()
    for line, group, option in _find_option_reads(tree, conf):
        if option in declared or (group, option) in reported:
            continue
        reported.add((group, option))
        kind = "FloatOpt" if option.endswith(("_multiplier", "_ratio")) else "StrOpt"
        default = ", default=1.0" if kind == "FloatOpt" else ""
        in_group = "" if group == "DEFAULT" else f", {group!r}"
        problem = (
            "no option has this name: declare it, for example by "
            f"CONF.register_opt(cfg.{kind}({option!r}{default}){in_group}) in the plugin's module"
        )
        yield Finding(file, line, f"[{group}] {option}", "not declared", problem)


def _find_option_reads(tree: ast.AST, conf: Conf) -> Iterator[tuple[int, str, str]]:
    """Yield line, group and name of each read of an unregistered option."""
    conf_names, called = {"CONF", "FLAGS"}, set()
    outer: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _get_last_name(node.value) in conf_names:
            conf_names.update(map(_get_last_name, node.targets))
        if isinstance(node, ast.Call):
            called.add(node.func)
        outer |= dict.fromkeys(ast.iter_child_nodes(node), node)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or _get_last_name(node.value) not in conf_names:
            continue
        group, member = node.attr, outer[node]
        options = {**conf.registered.get(group, {}), **CONF.registered.get(group, {})}
        if not isinstance(member, ast.Attribute) or member in called:
            is_known = bool(options) or hasattr(CONF, group) or hasattr(cfg.CONF, group)
            group, option = "DEFAULT", node.attr
        elif options:
            option, is_known = member.attr, member.attr in options
        else:  # an attribute of an option's value, or an option of an undefined group
            option, is_known = member.attr, hasattr(CONF, group)
        if not is_known:
            yield node.lineno, group, option


def _get_last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def expand_targets(targets: Iterable[str]) -> list[str]:
    """Replace folders and packages among the targets by files with plugins.

    A file is only parsed for this. ``setup.py``, ``conftest.py`` and tests are left out.
    """
    expanded: dict[str, None] = {}
    for target in targets:
        is_file = target.endswith(".py")
        folders = [Path(target)] if Path(target).is_dir() else []
        with suppress(ImportError, ValueError, AttributeError):
            spec = None if folders or is_file or "/" in target else find_spec(target)
            folders += map(Path, (spec.submodule_search_locations or ()) if spec else ())
        for folder in folders:
            files = (each for each in sorted(folder.rglob("*.py")) if _defines_plugin(each, folder))
            expanded |= dict.fromkeys(str(file.resolve()) for file in files)
        if not folders and not (is_file and _find_exclusion(Path(Path(target).name))):
            expanded[str(Path(target).resolve()) if is_file else target] = None
    return list(expanded)


def find_left_out(targets: Iterable[str]) -> list[Finding]:
    """List the files among the targets that :func:`expand_targets` leaves out."""
    files = [Path(target) for target in targets if target.endswith(".py")]
    reasons = {str(file): _find_exclusion(Path(file.name)) for file in files if not file.is_dir()}
    return [Finding(file, 0, "left out", reason) for file, reason in reasons.items() if reason]


def _defines_plugin(file: Path, folder: Path) -> bool:
    """Return whether a file may define a plugin, from its name and classes."""
    if _find_exclusion(file.relative_to(folder)):
        return False
    try:
        tree = ast.parse(file.read_text())
    except (OSError, UnicodeDecodeError, SyntaxError):
        return True  # the check of the file has the reason
    return any(
        isinstance(node, ast.ClassDef)
        and (bases := [each for each in node.bases if ast.unparse(each) not in _OTHER_BASES])
        and any(name.endswith(_BASE_NAMES) for name in (node.name, *map(_get_last_name, bases)))
        for node in ast.walk(tree)
    )


def _find_exclusion(path: Path) -> str:
    """Return why a file is left out, or an empty text."""
    is_test = path.stem.startswith("test_") or path.stem.endswith("_test")
    if is_test or path.name == "conftest.py" or not {"test", "tests"}.isdisjoint(path.parts):
        return "a test"
    return "a setup script" if path.name == "setup.py" else ""


#: The ends of names of filters, weighers and their base classes.
_BASE_NAMES = ("Filter", "Weigher", "Mixin", "Base")
#: Bases of classes that are no plugins.
_OTHER_BASES = {"object", "logging.Filter"}


def load_classes(target: str) -> list[type]:
    """Load filters and weighers from a file, a module or a class path.

    Raises :class:`ConfigurationError` if ``target`` cannot be imported.
    """
    try:
        if target.endswith(".py"):
            return _list_classes(load_plugin(lambda: _import_file(Path(target))))
        try:
            return _list_classes(load_plugin(lambda: import_module(target)))
        except ModuleNotFoundError as failure:
            module, _, name = target.rpartition(".")
            if failure.name != target or not module:
                raise
            target_object = getattr(load_plugin(lambda: import_module(module)), name)
        if isinstance(target_object, type):
            return [target_object]
        return list(load_plugin(target_object))
    except Exception as failure:
        reason = describe_import_error(failure)
        raise ConfigurationError(f"{target} cannot be imported: {reason}") from failure


def _import_file(path: Path) -> Any:
    """Import a file, as a module of its package if it has a package.

    Another file of the same name stays imported, and no module of the standard library is replaced.
    """
    parts, folder = ([] if path.stem == "__init__" else [path.stem]), path.parent
    nodes = ast.walk(ast.parse(path.read_text(), str(path)))
    dots = max((node.level for node in nodes if isinstance(node, ast.ImportFrom)), default=0)
    while (folder / "__init__.py").exists() or len(parts) <= dots:
        parts, folder = [folder.name, *parts], folder.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    name = ".".join(parts)
    if len(parts) > 1 or path.stem == "__init__":
        module = import_module(name)
        if Path(str(module.__file__)).resolve() != path.resolve():
            raise ImportError(f"{name} is already the module {module.__file__}: check it alone")
        return module
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    name = next(each for each in names if _is_free(each, path))
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_free(name: str, path: Path) -> bool:
    file = getattr(sys.modules.get(name), "__file__", str(path))
    return name not in sys.stdlib_module_names and file == str(path)


def _list_classes(module: Any) -> list[type]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and any(
            issubclass(value, base) and has_overrides(value, base, names)
            for base, names in _METHODS.items()
        )
    ]


def find_missing_methods(kinds: Iterable[type]) -> list[Finding]:
    """List a finding for each method that a class calls on itself but lacks.

    In a fork of nova, the base class may have the method. A dry run finds such a call only if it is
    executed for a host of the sample cloud.
    """
    problem = (
        "the class calls this method, which does not exist: add it to the base class in a file "
        "nova/scheduler/filters/__init__.py or nova/scheduler/weights/__init__.py"
    )
    kinds = list(kinds)
    return [
        Finding(find_source(kind), 0, f"{kind.__name__}.{name}", "missing", problem)
        for kind in kinds
        for name in _find_missing_methods(kind)
        if not any(hasattr(each, name) for each in kinds if issubclass(each, kind))
    ]


def _find_missing_methods(kind: type) -> list[str]:
    called, assigned = set(), set()
    for base in kind.__mro__[:-1]:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):  # a class that was created at run time
            return []
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and base is kind and _is_of_self(node.func):
                called.add(node.func.attr)
            elif _is_of_self(node) and isinstance(node.ctx, ast.Store):
                assigned.add(node.attr)
    return sorted(name for name in called - assigned if not hasattr(kind, name))


def _is_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def describe_interface(plugin: object) -> str:
    """Return which interface a plugin implements: nova's or this package's."""
    adapted = get_filter(plugin) if isinstance(plugin, BaseHostFilter) else plugin
    adapted = wrap_weigher(plugin) if isinstance(plugin, BaseHostWeigher) else adapted
    return "placement_sched" if adapted is plugin else "nova"


def find_source(kind: type) -> str:
    """Return the source file of a class, else the name of its module."""
    try:
        return inspect.getsourcefile(kind) or kind.__module__
    except TypeError:
        return kind.__module__


def try_files(kinds: Iterable[type], settings: Settings) -> list[Finding]:
    """Run classes that files define, as :func:`try_classes` does.

    A base class that fails without the attributes of its subclasses is no problem.
    """
    kinds = list(kinds)
    bases = {
        get_class_path(kind)
        for kind in kinds
        if any(each is not kind and issubclass(each, kind) for each in kinds)
        or inspect.isabstract(kind)
        or kind.__name__.startswith(("_", "Base"))
    }
    return [
        replace(each, state="fails without a subclass: a base class", problem="")
        if each.subject in bases and each.state == "fails"
        else each
        for each in try_classes(kinds, settings)
    ]


def try_classes(kinds: Iterable[type], settings: Settings) -> list[Finding]:
    """Run each class on requests in a sample cloud, and list the findings.

    The cloud has four hosts and is in a temporary database.
    """
    kinds = list(kinds)
    if not kinds:
        return []
    try:
        with _open_sample_cloud(settings) as scheduler:
            return [finding for kind in kinds for finding in _try(scheduler, kind)]
    except (Error, OSError) as failure:  # for example a full disk
        problem = f"the temporary database of the dry run failed: {format_one_line(failure)}"
        return [Finding(find_source(kinds[0]), 0, "dry run", "not done", problem)]


def _try(scheduler: Scheduler, kind: type) -> list[Finding]:
    with collect_missing() as reads:
        result = _run_requests(scheduler, kind)
    note = "The plugin hides the error, so its results may differ from nova's"
    hidden = [
        Finding(each.file, each.line, each.name, "missing", f"{each.problem}. {note}")
        for each in reads
    ]
    # The result of a class that fails has the reason.
    return [result] if result.problem else [*hidden, result]


def _run_requests(scheduler: Scheduler, kind: type, *, with_filters: bool = True) -> Finding:
    path, file = get_class_path(kind), find_source(kind)
    values: dict[str, Any] = {"filter_scheduler.weight_classes": []}
    filters = [path]
    if issubclass(kind, BaseHostWeigher):
        values["filter_scheduler.weight_classes"] = [path]
        # A weigher may need values that an enabled filter adds to hosts.
        filters = list(scheduler.settings.filter_scheduler.enabled_filters) if with_filters else []
    filters.append(get_class_path(ServerGroupAntiAffinityFilter))  # the server group requires it
    values["filter_scheduler.enabled_filters"] = filters
    for title, request in REQUESTS.items():
        try:
            trial = replace(scheduler, settings=scheduler.settings.with_overrides(values))
            with tolerate_failures():
                trial.explain(dict(request), view=ExplanationView())
        except Error as error:
            if path not in error.detail and filters[1:] and issubclass(kind, BaseHostWeigher):
                return _run_requests(scheduler, kind, with_filters=False)  # a filter has failed
            reason = error.detail.removesuffix(format_advice(kind))
            return Finding(file, 0, path, "fails", f"fails for {title}: {reason}")
    return Finding(file, 0, path, "runs")


@contextmanager
def _open_sample_cloud(settings: Settings) -> Iterator[Scheduler]:
    with open_temporary_database(settings) as (database, own_settings):
        database.write(lambda connection: _write_cloud(connection, own_settings))
        yield Scheduler(
            database=database,
            settings=own_settings,
            clock=utcnow,
            random=Random(1),  # noqa: S311 - no secrets
            caches=ProcessCaches(),
        )


def _write_cloud(connection: Connection, settings: Settings) -> None:
    now = utcnow()
    merge_state = merge(connection, _CLOUD, settings, now)
    apply(connection, merge_state)
    records = [
        replace(instance, created_at=now, launched_at=now)
        for instance in merge_state.after.instances.values()
    ]
    instances.record(connection, records, now, with_metadata=True)


def check_enabled(settings: Settings) -> list[str]:
    """List the problems of the enabled third-party plugins."""
    plugins = get_plugins(settings)
    enabled = dict.fromkeys(type(plugin) for plugin in (*plugins.filters, *plugins.weighers))
    kinds = [kind for kind in enabled if not kind.__module__.startswith("placement_sched.")]
    files = dict.fromkeys(find_source(kind) for kind in kinds)
    findings = [each for file in files for each in check_source(file, settings.conf)]
    findings += [*find_missing_methods(kinds), *try_classes(kinds, settings)]
    return [str(finding) for finding in findings if finding.problem]
