"""VCPU, MEMORY_MB and DISK_GB of a flavor, where nobody asked for them in so many words."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.groups.gathering import Groups

_MB_PER_GB = 1024


def add_amounts(groups: Groups, spec: RequestSpec) -> None:
    """Ask for what the flavor says of each class that no group names yet, be it none of it."""
    flavor, named = spec.flavor, groups.classes
    plain = groups.plain
    if "VCPU" not in named and "PCPU" not in named:
        plain.ask("VCPU", flavor.vcpus, "flavor vcpus")
    if "MEMORY_MB" not in named:
        plain.ask("MEMORY_MB", flavor.memory_mb, "flavor memory_mb")
    if "DISK_GB" not in named:
        plain.ask("DISK_GB", local_gb(flavor, boot_from_volume=spec.is_bfv), "flavor disks")


def local_gb(flavor: Flavor, *, boot_from_volume: bool) -> int:
    """Return the local disk in GB: swap, given in MB, is rounded up; a volume is not local."""
    root_gb = 0 if boot_from_volume else flavor.root_gb
    return root_gb + flavor.ephemeral_gb + -(-flavor.swap // _MB_PER_GB)
