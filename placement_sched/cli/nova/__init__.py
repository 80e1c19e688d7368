# SPDX-License-Identifier: Apache-2.0
"""``adopt`` and ``nova``: adoption of a nova, and synchronization with its databases."""

from placement_sched.cli.arguments import Commands, add_group
from placement_sched.cli.nova import adopt, shadow, sync


def register(commands: Commands) -> None:
    """Add the commands."""
    adopt.register(add_group(commands, "adopt", "take over the cloud of an existing nova"))
    summary = "read nova's databases, and compare with nova's scheduler"
    group = add_group(commands, "nova", summary)
    for part in (sync, shadow):
        part.register(group)
