# SPDX-License-Identifier: Apache-2.0
"""CoolHallsWeigher: prefer cool halls."""

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import utils
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class CoolHallsWeigher(BaseHostWeigher):
    """Prefers hosts of cool halls, by the metadata ``acme:degrees`` of their aggregates.

    A hall without this metadata has ``[acme_halls] assumed_degrees``. The multiplier is
    ``[acme_halls] cool_halls_weight_multiplier``.
    """

    multiplier_option = ("acme_halls", "cool_halls_weight_multiplier")
    options = (
        (
            "acme_halls",
            cfg.FloatOpt(
                "cool_halls_weight_multiplier",
                default=1.0,
                help="Multiplier of this weigher; negative prefers warm halls.",
            ),
        ),
        (
            "acme_halls",
            cfg.FloatOpt(
                "assumed_degrees",
                default=25.0,
                help="Degrees of halls without metadata acme:degrees, for CoolHallsWeigher.",
            ),
        ),
    )

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        degrees = utils.validate_num_values(
            utils.aggregate_values_from_key(host_state, "acme:degrees"),
            default=self.settings.acme_halls.assumed_degrees,
            cast_to=float,
            based_on=max,
        )
        return -float(degrees)
