"""The cells whose hosts get no instances now, each with the reason."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from placement_sched.db.transaction import Connection
from placement_sched.model.clock import Clock
from placement_sched.model.instance import NovaCell
from placement_sched.model.names import canonical
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.settings import Settings
from placement_sched.store.compute import cells

#: Returns of the cells of these hosts those that are closed to a request: the reasons by uuid.
ClosedAmong = Callable[[Iterable[HostState], RequestSpec], Mapping[str, str]]

_DISABLED = "its cell is disabled"


def none_closed(_hosts: Iterable[HostState], _spec: RequestSpec) -> Mapping[str, str]:
    """Return no cell."""
    return {}


@dataclass
class ClosedCells:
    """The closed cells as one request sees them; read, by one statement, where a host has a cell.

    Closed are the cells that ``[scheduler] disabled_cells`` names, those whose database does not
    answer, and those that are disabled in nova. As in nova, a request that names a cell of the last
    kind, to move an instance within it, may use its hosts.
    """

    connection: Connection
    settings: Settings
    now: Clock

    @cached_property
    def _closed_in_nova(self) -> tuple[NovaCell, ...]:
        return cells.closed(self.connection)

    def among(self, hosts: Iterable[HostState], spec: RequestSpec) -> Mapping[str, str]:
        """Return the reasons by uuid, in its usual form; empty where no host has a cell."""
        reasons: dict[str, str] = {}
        if any(host.cell_uuid is not None for host in hosts):
            for cell in self._closed_in_nova:
                uuid = canonical(cell.uuid)
                if reason := self._reason(cell, named=uuid == spec.destination.only_cell):
                    reasons[uuid] = reason
        return reasons | dict.fromkeys(
            map(canonical, self.settings.scheduler.disabled_cells), _DISABLED
        )

    def _reason(self, cell: NovaCell, *, named: bool) -> str | None:
        if cell.away_since is not None:
            seconds = max(0, int((self.now() - cell.away_since).total_seconds()))
            said = f"the database of cell {cell.title} has not answered for {seconds} s"
            return f"{said}: {cell.failure}" if cell.failure else said
        return _DISABLED if cell.disabled and not named else None
