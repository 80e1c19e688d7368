"""What several instances of one request may still take together, before anything is claimed.

Each candidate fits one instance. A second instance on the same host must fit beside the first;
the claim would find out, but an answer without a claim has to know as well.
"""

from collections.abc import Mapping
from typing import Self

from placement_sched.db.connection import Connection
from placement_sched.model.candidate import Candidates
from placement_sched.scheduler.host_state import HostState
from placement_sched.store import capacity, resource_classes

Amounts = Mapping[str, int]


class Headroom:
    """Free units by provider uuid and class, less what instances of this request took."""

    def __init__(self, free: dict[str, dict[str, int]] | None = None) -> None:
        self._free = free

    @classmethod
    def unbounded(cls) -> Self:
        """Return what needs no accounts: a request for a single instance."""
        return cls()

    @classmethod
    def read(cls, connection: Connection, candidates: Candidates) -> Self:
        """Return what is free now of all that the candidates use, in two statements."""
        ids = {provider.uuid: provider.id for provider in candidates.providers}
        classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
        wanted = {
            (uuid, name)
            for request in candidates.requests
            for uuid, amounts in request.allocations.items()
            for name in amounts
        }
        rooms = capacity.read(connection, {(ids[uuid], classes[name]) for uuid, name in wanted})
        free: dict[str, dict[str, int]] = {}
        for uuid, name in wanted:
            room = rooms.get((ids[uuid], classes[name]))
            left = room.inventory.capacity - room.used if room else 0
            free.setdefault(uuid, {})[name] = left
        return cls(free)

    def fits(self, host: HostState) -> bool:
        """Return whether one more instance fits."""
        if self._free is None:
            return True
        free = self._free
        return all(
            free[uuid][name] >= amount
            for uuid, part in _allocations(host).items()
            for name, amount in part["resources"].items()
        )

    def take(self, host: HostState) -> None:
        """Note that one more instance goes there."""
        if self._free is None:
            return
        for uuid, part in _allocations(host).items():
            for name, amount in part["resources"].items():
                self._free[uuid][name] -= amount


def _allocations(host: HostState) -> Mapping[str, Mapping[str, Amounts]]:
    allocations: Mapping[str, Mapping[str, Amounts]] = host.allocation_candidates[0]["allocations"]
    return allocations
