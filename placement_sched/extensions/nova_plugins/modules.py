# SPDX-License-Identifier: Apache-2.0
"""The modules of nova as the core uses them: import, and advice in errors."""

import inspect
import linecache
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from oslo_config import cfg

from placement_sched.config.conf import register_core_options
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.nova_plugins import finder
from placement_sched.scheduler.plugin import PAGE
from placement_sched.scheduler.plugins import describe_import_error, load_plugin, register_options

_USE_SHIM = f"or set [filter_scheduler] nova_shim = true (see {PAGE})"


def install() -> None:
    """Make the modules importable, with the options of nova in ``cfg.CONF``.

    The options of a fork count too. Raises :class:`ConfigurationError` if the file ``nova/conf.py``
    of a fork cannot be imported.
    """
    if not finder.install():
        return
    register_core_options(cfg.CONF)
    register_options(cfg.CONF)
    if not finder.fork_files("nova.conf"):
        return
    try:
        load_plugin(lambda: import_module("nova.conf"))  # as nova does at its start
    except Exception as failure:
        reason = describe_import_error(failure)
        raise ConfigurationError(f"nova.conf cannot be imported: {reason}") from failure


def has_added(name: str) -> bool:
    """Return whether the modules are importable and a fork adds a module."""
    return finder.is_installed() and finder.is_of_fork(name)


def list_extra_spec_entry_points() -> Sequence[EntryPoint]:
    """Return nova's validators of extra specs if the modules are importable."""
    return tuple(
        entry_points(group="nova.api.extra_spec_validators") if finder.is_installed() else ()
    )


def explain_import(failure: Exception, file: str | None) -> str | None:
    """Return advice on a file that failed to import a module of nova.

    Returns None for any other error, and an empty text if the modules are importable.
    """
    if not isinstance(failure, ImportError) or not finder.is_of_nova(failure.name or ""):
        return None
    return "" if file and finder.is_installed() else _describe_imports(file)


def describe_base(plugin_class: object) -> str:
    """Return a note if a class has nova's base class, or an empty text."""
    if not isinstance(plugin_class, type) or not any(
        finder.is_of_nova(base.__module__) for base in plugin_class.__mro__
    ):
        return ""
    return f": its base is nova's{_describe_imports(inspect.getsourcefile(plugin_class))}"


def _describe_imports(file: str | None) -> str:
    """Return advice on the imports from nova in a file, to end a sentence."""
    try:
        source = "".join(linecache.getlines(file)) if file else ""
        names = finder.list_names(source, imports_only=True)
    except SyntaxError:
        return ""
    hints = [f"{file}:{each.line}: {each.hint}" for each in names]
    return "".join(f"; {hint}" for hint in dict.fromkeys([*hints, _USE_SHIM] if hints else ()))
