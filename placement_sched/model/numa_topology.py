"""The NUMA nodes that an instance is given (nova's InstanceNUMATopology attribute names)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

#: Page sizes that are no size, in the place of one in KiB.
PAGES_SMALL, PAGES_LARGE, PAGES_ANY = -1, -2, -3


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMACell:
    """One NUMA node of an instance.

    ``cpuset`` are its virtual CPUs that float, ``pcpuset`` those that are pinned; ``memory`` is
    in MB, ``pagesize`` in KiB or one of :data:`PAGES_SMALL`, :data:`PAGES_LARGE` and
    :data:`PAGES_ANY`; nothing is asked of pages where it is None or 0.
    """

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int] = frozenset()
    memory: int
    pagesize: int | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], position: int) -> Self:
        """Return the node that a request's JSON object describes; its id may be its position."""
        number = document.get("id")
        return cls(
            id=position if number is None else number,
            cpuset=frozenset(document["cpuset"]),
            pcpuset=frozenset(document.get("pcpuset") or ()),
            memory=document["memory"],
            pagesize=document.get("pagesize"),
            cpu_policy=document.get("cpu_policy"),
            cpu_thread_policy=document.get("cpu_thread_policy"),
        )

    @property
    def total_cpus(self) -> frozenset[int]:
        """Return its virtual CPUs, pinned or not."""
        return self.cpuset | self.pcpuset

    def __len__(self) -> int:
        return len(self.total_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedNUMACell(InstanceNUMACell):
    """One NUMA node of an instance on a host: ``id`` is that of the host's node.

    ``cpu_pinning`` has the host's CPU of each virtual one that is pinned, ``cpuset_reserved`` the
    host's CPUs for the emulator's threads alone; ``pagesize`` is a size, no longer a word for one.
    """

    cpu_pinning: Mapping[int, int] = field(default_factory=dict)
    cpuset_reserved: frozenset[int] = frozenset()

    @property
    def host_cpus(self) -> frozenset[int]:
        """Return the CPUs of the host that nobody else may have."""
        return self.cpuset_reserved.union(self.cpu_pinning.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMATopology:
    """The NUMA nodes of an instance, and where the threads of its emulator run.

    One without nodes is false.
    """

    cells: tuple[InstanceNUMACell, ...] = ()
    emulator_threads_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the topology that a request's JSON object (contract, ``numa_topology``) gives."""
        return cls(
            cells=tuple(
                InstanceNUMACell.from_document(cell, position)
                for position, cell in enumerate(document["cells"])
            ),
            emulator_threads_policy=document.get("emulator_threads_policy"),
        )

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def cpu_policy(self) -> str | None:
        """Return the CPU policy, of which all nodes have the same."""
        return self.cells[0].cpu_policy if self.cells else None

    @property
    def emulator_threads_isolated(self) -> bool:
        """Return whether the emulator's threads have a CPU of their own."""
        return self.emulator_threads_policy == "isolate"
