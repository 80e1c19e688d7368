"""What the environment tells: ``PLACEMENT_SCHED_CONFIG``, and ``OS_<GROUP>__<OPTION>``.

In the latter an option's older names work, too.
"""

import os
from typing import Any

from oslo_config import cfg
from oslo_config.sources._environment import EnvironmentConfigurationSource

#: The variable that names configuration files for the WSGI entry points.
FILES = "PLACEMENT_SCHED_CONFIG"


class Environment(EnvironmentConfigurationSource):
    """oslo.config's source, which looks for deprecated names in files only, taught to look here."""

    def get(self, group_name: str | None, option_name: str, opt: cfg.Opt) -> tuple[Any, Any]:
        """Return value and location, looking under today's name first."""
        found = super().get(group_name, option_name, opt)
        for old in opt.deprecated_opts:
            # A location is what tells a value from none.
            if found[1] is not None:
                break
            found = super().get(old.group or group_name, old.name or option_name, opt)
        return found


def files_named() -> list[str]:
    """Return the configuration files that ``PLACEMENT_SCHED_CONFIG`` names, colon-separated."""
    return [name for name in os.environ.get(FILES, "").split(":") if name]
