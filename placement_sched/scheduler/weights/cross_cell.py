"""CrossCellWeigher: prefer hosts of the cell in which an instance is."""

from oslo_config import cfg

from placement_sched.model.names import canonical
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class CrossCellWeigher(BaseHostWeigher):
    """Prefers hosts of the cell that a move may leave, but need not.

    That is the ``cell`` of a request whose ``requested_destination`` has ``allow_cross_cell_move``
    set: its hosts weigh 1, and those of other cells -1. To any other request this weigher says
    nothing. The multiplier ``[filter_scheduler] cross_cell_move_weight_multiplier`` is so large
    that another cell is the last resort; with a negative one other cells are preferred. Aggregate
    metadata ``cross_cell_move_weight_multiplier`` override it for the hosts in the aggregate; of
    several the smallest counts.
    """

    by_host = True
    weight_option = cfg.FloatOpt("cross_cell_move_weight_multiplier", default=1_000_000.0)
    weight_help = (
        "Multiplier of CrossCellWeigher, for moves that may go to another cell; positive prefers "
        "hosts of the same cell, negative hosts of other cells."
    )

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether the request may go to another cell than the one it names."""
        return spec_obj.destination.preferred_cell is not None

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return 1 for hosts of the cell and -1 for those of others, or 0 for each of them."""
        preferred = spec_obj.destination.preferred_cell
        if preferred is None:
            return [0] * len(hosts)
        cells = (canonical(host.cell_uuid) if host.cell_uuid else None for host in hosts)
        return [1 if cell == preferred else -1 for cell in cells]
