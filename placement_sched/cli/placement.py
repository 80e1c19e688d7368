"""``placement``: keeps placement in step with the cloud, with nova-manage's names."""

from placement_sched.cli import placement_audit, placement_heal, placement_sync
from placement_sched.cli.arguments import Commands, add_group

#: The commands, in the order of ``--help``.
PARTS = (placement_sync, placement_audit, placement_heal)


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(
        commands,
        "placement",
        summary="keep placement in step with the cloud, as nova-manage placement does",
    )
    for part in PARTS:
        part.register(group)
