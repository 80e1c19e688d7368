"""CrossCellWeigher: prefer hosts of the cell in which an instance is."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.allocation import canonical
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class CrossCellWeigher(BaseHostWeigher):
    """Prefers hosts of the cell that a move may leave, but need not.

    That is the ``cell`` of a request whose ``requested_destination`` has ``allow_cross_cell_move``
    set: its hosts weigh 1, and those of other cells -1. To any other request this weigher says
    nothing. The multiplier ``[filter_scheduler] cross_cell_move_weight_multiplier`` is so large
    that another cell is the last resort; with a negative one other cells are preferred. Aggregate
    metadata ``cross_cell_move_weight_multiplier`` override it for the hosts in the aggregate; of
    several the smallest counts.
    """

    multiplier_option = ("filter_scheduler", "cross_cell_move_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "cross_cell_move_weight_multiplier",
                default=1_000_000.0,
                help="How much it counts, in a move that may go to another cell, that a host is of "
                "the same; negative prefers other cells.",
            ),
        ),
    )

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether the request may go to another cell than the one it names."""
        return spec_obj.destination.preferred_cell is not None

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return 1 for hosts of the cell and -1 for those of others, or 0 for each of them."""
        preferred = spec_obj.destination.preferred_cell
        if preferred is None:
            return [0] * len(hosts)
        return [
            1 if host.cell_uuid and canonical(host.cell_uuid) == preferred else -1 for host in hosts
        ]
