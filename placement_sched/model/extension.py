# SPDX-License-Identifier: Apache-2.0
"""Extensions, which add commands, routes, options and tasks to the core.

An extension is found through an entry point in the group ``placement_sched.extensions``, whose name
is the name of the extension and whose value is an :class:`Extension`. The core imports no
extension: it calls the hooks of the installed extensions. A hook that no extension fills does
nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

from placement_sched.errors import ConfigurationError, format_one_line

ENTRY_POINT_GROUP = "placement_sched.extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The parts of an extension, each with the hook of the core that uses it.

    Apart from the commands, a hook is the path of an object, ``package.module:name``. The module is
    imported when the core first calls the hook, so that a command imports few modules.

    * ``commands``: modules of commands, with summaries, as :data:`placement_sched.cli.main.GROUPS`.
    * ``subcommands``: modules by group of the core, such as ``host``, with ``register(group)``.
    * ``options``: a mapping of group to options of oslo.config.
    * ``server_options``: groups and names of mutable options that are equal for all requests.
    * ``config_check``: ``check(settings)`` returns warnings for ``config validate`` and the log.
    * ``blueprints``: :class:`placement_sched.api.routing.Blueprint` objects of the Scheduler API.
    * ``policy_rules``: the API policy rules of these blueprints.
    * ``install``: ``install(application, services)`` adds to the complete Flask application, whose
      ``wsgi_app`` it may wrap.
    * ``start_line``: ``describe(settings, host, url)`` returns a line for ``serve``'s start, or "".
    * ``periodic_tasks``: ``build(scheduler)`` returns tasks of a server
      (:class:`placement_sched.operations.periodic.PeriodicTask`).
    * ``old_rows``: ``purge(connection, before)`` deletes rows that are older than a time. It is
      called once a minute if ``[scheduler] decision_retention`` is set.
    * ``translator``: a module with two functions for commands that call the scheduler API.
      ``add_arguments(parser)`` adds an option, and ``read_translator(arguments)`` returns the
      :class:`Translator` that it selects, or None.
    * ``cloud_source``: a module with four functions for commands that can read another cloud than
      the configured database. ``add_arguments(parser, has_login=...)`` adds options,
      ``is_selected(arguments)`` returns whether they select it, ``read_settings(arguments)``
      returns the settings of a database with its content, and then ``get_place(arguments)`` its
      name for messages.
    * ``gauges``: ``build(scheduler, outside)`` returns Prometheus collectors. ``outside(read)``
      wraps a function for use outside of requests.

    The following hooks are for plugins that import modules of nova. Apart from advice in errors,
    they are called only if ``[filter_scheduler] nova_shim`` is set.

    * ``nova_modules``: a module with these functions. ``install()`` makes the modules importable.
      ``has_added(name)`` returns whether a fork of nova adds a module.
      ``explain_import(failure, file)`` and ``describe_base(plugin_class)`` return advice in errors.
      ``list_extra_spec_entry_points()`` returns further entry points of validators.
    * ``lookups``: ``provide(view, hosts)`` is called before the plugins of a request run, first
      without hosts, with the view that the request has of the cloud.
    * ``placement_client``: ``provide(scheduler)`` is called with each new scheduler, whose database
      the plugins read through the Placement API.
    """

    commands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    subcommands: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    server_options: str = ""
    config_check: str = ""
    blueprints: str = ""
    policy_rules: str = ""
    install: str = ""
    start_line: str = ""
    periodic_tasks: str = ""
    old_rows: str = ""
    translator: str = ""
    cloud_source: str = ""
    gauges: str = ""
    nova_modules: str = ""
    lookups: str = ""
    placement_client: str = ""


class Translator(Protocol):
    """Translation of requests and responses of a cloud with other names."""

    def convert(self, document: Any, key: str = "") -> Any:
        """Return a request, or the value of a key, with the names of the cloud."""

    def restore(self, document: Any) -> Any:
        """Return a response with the original names."""


@cache
def load_entry_points() -> Mapping[str, Extension | str]:
    """Map each extension to its value, or to a module of its absent package.

    Raises :class:`ConfigurationError` if a package is present but cannot be loaded, or if two
    extensions have the same name.
    """
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    for first, second in pairwise(points):
        if first.name == second.name and first.value != second.value:
            both = f"{first.value} and {second.value}"
            raise ConfigurationError(f"two extensions are called {first.name}: {both}")
    return {point.name: _load_entry_point(point) for point in points}


def _load_entry_point(point: EntryPoint) -> Extension | str:
    try:
        extension = point.load()
    except Exception as failure:
        missing = failure.name if isinstance(failure, ModuleNotFoundError) else None
        # A missing dependency of the extension is an error.
        if missing is not None and f"{point.module}.".startswith(f"{missing}."):
            return missing
        reason = format_one_line(failure)
        raise ConfigurationError(
            f"the extension {point.name} ({point.value}) cannot be loaded: {reason}"
        ) from failure
    if not isinstance(extension, Extension):
        raise ConfigurationError(f"the extension {point.name}: {point.value} is no Extension")
    return extension


def find_extensions() -> Mapping[str, Extension]:
    """Return the installed extensions by name, sorted.

    An extension whose package is absent is skipped.
    """
    loaded = load_entry_points().items()
    return {name: extension for name, extension in loaded if isinstance(extension, Extension)}


def list_absent_extensions() -> list[str]:
    """Return a sentence about each extension whose package is absent."""
    return [
        f"the extension {name} is not installed: no module {missing}"
        for name, missing in load_entry_points().items()
        if isinstance(missing, str)
    ]


def load_hooks(hook: str, disabled: Collection[str] = ()) -> list[Any]:
    """Return the objects that extensions provide for a hook.

    ``disabled`` are names of extensions to leave out (``[DEFAULT] disabled_extensions``). Raises
    :class:`ConfigurationError` if an object does not exist.
    """
    hooks: list[Any] = []
    for name, extension in find_extensions().items():
        if name in disabled or not (path := getattr(extension, hook)):
            continue
        try:
            hooks.append(load_object(path))
        except (ImportError, AttributeError) as failure:
            reason = format_one_line(failure)
            message = f"the extension {name} cannot load {path} ({hook}): {reason}"
            raise ConfigurationError(message) from failure
    return hooks


def load_subcommands(group: str) -> list[tuple[str, ModuleType]]:
    """Return the modules that add commands to a group, with their extensions."""
    return [
        (name, import_module(extension.subcommands[group]))
        for name, extension in find_extensions().items()
        if group in extension.subcommands
    ]


def load_object(path: str) -> Any:
    """Import the object at a path, ``package.module:name``, or a module."""
    path, _, name = path.partition(":")
    module = import_module(path)
    return getattr(module, name) if name else module
