# SPDX-License-Identifier: Apache-2.0
from nova import availability_zones
from nova.scheduler import filters


class ResizeZoneFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        properties = filter_properties.get("request_spec", {}).get("instance_properties", {})
        host = properties.get("host")
        if not host:
            return True
        context = filter_properties["context"].elevated()
        zone = availability_zones.get_host_availability_zone
        return zone(context, host_state.host) == zone(context, host)
