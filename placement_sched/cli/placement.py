"""``placement``: repairs of what placement keeps, as nova-manage's of the same names."""

from placement_sched.cli import placement_audit, placement_heal
from placement_sched.cli.arguments import Commands, add_group

#: The commands, in the order of ``--help``.
PARTS = (placement_audit, placement_heal)


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(
        commands, "placement", summary="repair what placement keeps, as nova-manage placement does"
    )
    for part in PARTS:
        part.register(group)
