# SPDX-License-Identifier: Apache-2.0
from nova.i18n import _LW
from nova.scheduler import filters, utils
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class NotRebuildFilter(filters.BaseHostFilter):
    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        LOG.warning(_LW("checked %s"), host_state)
        return not utils.request_is_rebuild(spec_obj) and host_state.host != "cn1"
