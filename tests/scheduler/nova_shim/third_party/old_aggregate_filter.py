# SPDX-License-Identifier: Apache-2.0
from nova import db
from nova.openstack.common import log as logging
from nova.openstack.common.gettextutils import _
from nova.scheduler import filters

LOG = logging.getLogger(__name__)


class OldAggregateFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        context = filter_properties["context"].elevated()
        metadata = db.aggregate_metadata_get_by_host(context, host_state.host, key="rack")
        if "a" in metadata.get("rack", ()):
            LOG.debug(_("%(host)s is in rack a"), {"host": host_state.host})
            return False
        return context.is_admin
