# SPDX-License-Identifier: Apache-2.0
"""Modules of nova for third-party plugins, and the check of plugins.

``[filter_scheduler] nova_shim`` enables the modules. ``finder`` makes them importable. The other
modules implement the parts that have no counterpart elsewhere in this service. Nothing here is
nova's code: names and meaning follow nova's public documentation, and the plugins in public
repositories.
"""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    commands={
        "placement_sched.extensions.nova_plugins.plugin_command": {
            "plugin": "check filters and weighers of other packages"
        }
    },
    config_check="placement_sched.extensions.nova_plugins.plugin_check:check_enabled",
    nova_modules="placement_sched.extensions.nova_plugins.modules",
    lookups="placement_sched.extensions.nova_plugins.lookups:set_lookups",
    placement_client="placement_sched.extensions.nova_plugins.placement_client:provide_placement",
)
