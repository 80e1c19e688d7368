# SPDX-License-Identifier: Apache-2.0
from nova import flags
from nova.scheduler import filters

FLAGS = flags.FLAGS


class FlagsFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get("instance_type")
        reason = _("flavor %s is for cn3") % instance_type["name"]
        return host_state.host == "cn3" and bool(reason) and FLAGS.service_down_time > 0
