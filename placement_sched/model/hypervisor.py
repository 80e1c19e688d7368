"""A hypervisor: a compute node as the compute API shows it, with the service of its host."""

from collections.abc import Iterable
from dataclasses import dataclass

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """What names a hypervisor, and the compute service of its host: its state is that one's."""

    id: int
    uuid: str
    name: str
    service: Service


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeHypervisor(Hypervisor):
    """A hypervisor with all that its host reported last."""

    node: ComputeNode

    @property
    def running_vms(self) -> int:
        """Return how many instances the host counts."""
        return int(self.node.stats.get("num_instances", 0))

    @property
    def current_workload(self) -> int:
        """Return how many tasks the host is busy with."""
        return int(self.node.stats.get("io_workload", 0))

    @property
    def uptime(self) -> str | None:
        """Return what the host said of its uptime, in words of its own; None if nothing."""
        return self.node.stats.get("uptime")


#: What hypervisors are measured by, in the order in which it is told.
MEASURES = (
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
)


def measured(hypervisor: WholeHypervisor) -> dict[str, int | None]:
    """Return a hypervisor's measures in MB, GB and numbers; None where the host does not know."""
    measures = {name: getattr(hypervisor.node, name) for name in MEASURES}
    return measures | {
        "current_workload": hypervisor.current_workload,
        "running_vms": hypervisor.running_vms,
    }


def summed(hypervisors: Iterable[WholeHypervisor]) -> dict[str, int]:
    """Return how many hypervisors there are, and the sums of their measures; unknown ones are 0."""
    sums = dict.fromkeys(("count", *MEASURES, "current_workload", "running_vms"), 0)
    for hypervisor in hypervisors:
        sums["count"] += 1
        for name, value in measured(hypervisor).items():
            sums[name] += value or 0
    return sums
