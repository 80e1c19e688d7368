# SPDX-License-Identifier: Apache-2.0
from nova import availability_zones
from nova.scheduler import filters
from oslo.config import cfg

CONF = cfg.CONF
CONF.import_opt("default_availability_zone", "nova.availability_zones")


class ZoneFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        context = filter_properties["context"]
        zone = availability_zones.get_host_availability_zone(context, host_state.host)
        return zone == CONF.default_availability_zone
