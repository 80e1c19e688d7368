# SPDX-License-Identifier: Apache-2.0
"""Hooks that provide modules of nova and data of the cloud to plugins.

``[filter_scheduler] nova_shim`` enables them.
"""

from collections.abc import Sequence
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.model.extension import load_hooks

_OPTION, _EXTENSION = "[filter_scheduler] nova_shim", "nova_plugins"


def load_plugin_hooks(hook: str, settings: Settings) -> Sequence[Any]:
    """Return the objects of a hook, or nothing unless ``nova_shim`` is set.

    Raises :class:`ConfigurationError` if ``nova_shim`` is set and no extension has the hook.
    """
    if not settings.filter_scheduler.nova_shim:
        return ()
    disabled = settings.DEFAULT.disabled_extensions
    if hooks := load_hooks(hook, disabled):
        return hooks
    reason = (
        "disabled by [DEFAULT] disabled_extensions" if _EXTENSION in disabled else "not installed"
    )
    message = f"{_OPTION} needs the extension {_EXTENSION}, which is {reason}"
    raise ConfigurationError(message, option=_OPTION)
