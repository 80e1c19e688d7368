# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import weights
from nova.scheduler.filters import utils


class RackWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        racks = utils.aggregate_values_from_db(
            weight_properties["context"], host_state.host, "rack"
        )
        return len(racks)
