# SPDX-License-Identifier: Apache-2.0
"""Filters of old releases."""

from nova import availability_zones, db
from nova import filters as base_filters
from nova import utils as nova_utils
from nova.openstack.common import jsonutils, timeutils
from nova.openstack.common import log as logging
from nova.openstack.common.gettextutils import _
from nova.scheduler import filters
from nova.scheduler.filters import extra_specs_ops, utils
from oslo.config import cfg


class ImageDistroFilter(base_filters.BaseFilter):
    def _filter_one(self, obj, filter_properties):
        image = filter_properties["request_spec"]["image"]
        return obj.host in image["properties"]["os_distro"]


LOG = logging.getLogger(__name__)


class DatabaseRackFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        context = filter_properties["context"].elevated()
        metadata = db.aggregate_metadata_get_by_host(context, host_state.host, key="rack")
        if "a" in metadata.get("rack", ()):
            LOG.debug(_("%(host)s is in rack a"), {"host": host_state.host})
            return False
        return context.is_admin


class HypervisorVersionFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        version = nova_utils.convert_version_to_int("8.2.0")
        cpu_info = jsonutils.loads(host_state.cpu_info or "{}")
        is_fresh = not timeutils.is_older_than(host_state.updated, 10**9)
        return host_state.hypervisor_version >= version and is_fresh and cpu_info == {}


class ExtraSpecOperatorFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = spec_obj.flavor.extra_specs.get("acme:rack")
        racks = utils.aggregate_values_from_key(host_state, "rack")
        return wanted is None or any(extra_specs_ops.match(rack, wanted) for rack in racks)


class SameZoneResizeFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        properties = filter_properties.get("request_spec", {}).get("instance_properties", {})
        host = properties.get("host")
        if not host:
            return True
        context = filter_properties["context"].elevated()
        zone = availability_zones.get_host_availability_zone
        return zone(context, host_state.host) == zone(context, host)


CONF = cfg.CONF
CONF.import_opt("default_availability_zone", "nova.availability_zones")


class DefaultZoneFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        context = filter_properties["context"]
        zone = availability_zones.get_host_availability_zone(context, host_state.host)
        return zone == CONF.default_availability_zone
