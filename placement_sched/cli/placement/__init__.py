# SPDX-License-Identifier: Apache-2.0
"""``placement``: the commands of ``nova-manage placement``."""

from placement_sched.cli.arguments import Commands, add_group
from placement_sched.cli.placement import audit, heal, sync


def register(commands: Commands) -> None:
    """Add the commands."""
    summary = "synchronise, audit and heal placement, as nova-manage placement does"
    group = add_group(commands, "placement", summary)
    for part in (sync, audit, heal):
        part.register(group)
