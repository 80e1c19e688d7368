# SPDX-License-Identifier: Apache-2.0
import nova.conf
from nova.scheduler import filters
from oslo_config import cfg

CONF = nova.conf.CONF
GROUP = cfg.OptGroup("reservations", title="Reservations")
OPTIONS = [
    cfg.StrOpt(
        "metadata_key_of_owner", default="reservation", help="metadata key of reserved aggregates"
    )
]
CONF.register_group(GROUP)
CONF.register_opts(OPTIONS, GROUP)


class ReservationFilter(filters.BaseHostFilter):
    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        owners = {
            a.metadata.get(CONF.reservations.metadata_key_of_owner) for a in host_state.aggregates
        } - {None}
        return not owners or spec_obj.project_id in owners
