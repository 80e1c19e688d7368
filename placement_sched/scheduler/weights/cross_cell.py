# SPDX-License-Identifier: Apache-2.0
"""CrossCellWeigher: weigher that prefers the current cell of an instance."""

from oslo_config import cfg

from placement_sched.model.names import canonicalize_uuid
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class CrossCellWeigher(BaseHostWeigher):
    """Weigher that prefers hosts in the current cell of a moving instance.

    The cell is ``cell`` of a ``requested_destination`` with ``allow_cross_cell_move``: its hosts
    weigh 1, other hosts -1. For other requests the weigher does not run. The default of the
    multiplier ``[filter_scheduler] cross_cell_move_weight_multiplier`` makes another cell the last
    resort. A negative multiplier prefers other cells.
    """

    by_host = True
    weight_option = cfg.FloatOpt("cross_cell_move_weight_multiplier", default=1_000_000.0)
    weight_help = (
        "Multiplier of CrossCellWeigher, for moves that may go to another cell. A positive "
        "value prefers hosts of the same cell, a negative value hosts of other cells."
    )

    def concerns(self, spec_obj: RequestSpec) -> bool:
        return spec_obj.destination.preferred_cell is not None

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        preferred = spec_obj.destination.preferred_cell
        if preferred is None:
            return [0] * len(hosts)
        cells = (canonicalize_uuid(host.cell_uuid) if host.cell_uuid else None for host in hosts)
        return [1 if cell == preferred else -1 for cell in cells]
