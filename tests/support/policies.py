# SPDX-License-Identifier: Apache-2.0
"""Settings with scheduling policies from a configuration file."""

from pathlib import Path

from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf, read_settings

#: The documented example with its section headers, and a policy with all options.
POLICIES_CONF_TEXT = """
[high_cpu_density]
cpu_allocation_ratio = 8.0

[low_cpu_density]
cpu_allocation_ratio = 1.0

[everything]
cpu_allocation_ratio = 2.0
ram_allocation_ratio = 1.5
disk_allocation_ratio = 3.0

[nothing]
cpu_allocation_ratio = 0.0
host_subset_size = 2
"""


def settings_with_policies(url: str, folder: Path, text: str = POLICIES_CONF_TEXT) -> Settings:
    """Return the settings of a file with this text, for the database ``url``."""
    file = folder / "policies.conf"
    file.write_text(f"[placement_database]\nconnection = {url}\n{text}")
    return read_settings([str(file)], make_full_conf())
