# SPDX-License-Identifier: Apache-2.0
"""``nova``: adoption of a nova, and synchronization with its databases."""

from placement_sched.cli.arguments import Commands, add_group
from placement_sched.cli.nova import adopt, sync


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "nova", "read nova's databases, and take over its cloud")
    for part in (adopt, sync):
        part.register(group)
