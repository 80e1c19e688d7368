# SPDX-License-Identifier: Apache-2.0
"""Filters of recent releases."""

import re

import nova.conf
from nova import context, exception, flags, objects
from nova import context as nova_context
from nova.compute import task_states, vm_states
from nova.i18n import _LW
from nova.objects import instance_group
from nova.objects.request_spec import RequestSpec
from nova.scheduler import filters, utils, weights
from nova.scheduler.client import report
from nova.scheduler.host_manager import HostState
from oslo_config import cfg
from oslo_log import log as logging


class NoBuildingInstancesFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        found = objects.InstanceList.get_by_host(spec_obj._context, host_state.host)
        busy = [
            instance
            for instance in found.objects
            if instance.vm_state == vm_states.BUILDING
            or instance.task_state == task_states.SPAWNING
        ]
        return not busy


def find_racks_of_host(host):
    context = nova_context.get_admin_context()
    found = objects.AggregateList.get_by_host(context, host, key="rack")
    return {aggregate.metadata["rack"] for aggregate in found}


class FailureDomainFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        other = spec_obj.get_scheduler_hint("away_from")
        return not other or not find_racks_of_host(host_state.host) & find_racks_of_host(other)


FLAGS = flags.FLAGS


class NovaFlagsFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get("instance_type")
        reason = _("flavor %s is for cn3") % instance_type["name"]
        return host_state.host == "cn3" and bool(reason) and FLAGS.service_down_time > 0


class NoServerGroupFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        for uuid in host_state.instances:
            try:
                instance_group.InstanceGroup.get_by_instance_uuid(spec_obj._context, uuid)
            except exception.InstanceGroupNotFound as error:
                return uuid not in error.format_message()
        return True


class HostNamePatternFilter(filters.BaseHostFilter):
    """Accept hosts whose name matches the hint."""

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        pattern = spec_obj.get_scheduler_hint("hostname", ".*")
        return re.fullmatch(pattern, host_state.host) is not None


IDLE_RATIO_ATTRIBUTE = "acme.idle-ratio"


class IdleRatioFilter(filters.BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        for number, host in enumerate(sorted(filter_obj_list, key=lambda state: state.host), 1):
            setattr(host, IDLE_RATIO_ATTRIBUTE, number / 10)
            if getattr(host, IDLE_RATIO_ATTRIBUTE) >= 0.2:
                yield host


class IdleRatioWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return getattr(host_state, IDLE_RATIO_ATTRIBUTE, 0.0)


class VcpuMaxUnitFilter(filters.BaseHostFilter):
    def __init__(self):
        super().__init__()
        self.placement = report.SchedulerReportClient()

    def host_passes(self, host_state, spec_obj):
        found = self.placement._get_inventory(spec_obj._context, host_state.uuid)
        return found["inventories"]["VCPU"]["max_unit"] >= 32


LOG = logging.getLogger(__name__)


class NotRebuildFilter(filters.BaseHostFilter):
    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        LOG.warning(_LW("checked %s"), host_state)
        return not utils.request_is_rebuild(spec_obj) and host_state.host != "cn1"


CONF = nova.conf.CONF
RESERVATIONS_GROUP = cfg.OptGroup("reservations", title="Reservations")
RESERVATION_OPTIONS = [
    cfg.StrOpt(
        "metadata_key_of_owner", default="reservation", help="metadata key of reserved aggregates"
    )
]
CONF.register_group(RESERVATIONS_GROUP)
CONF.register_opts(RESERVATION_OPTIONS, RESERVATIONS_GROUP)


class ProjectReservationFilter(filters.BaseHostFilter):
    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        owners = {
            a.metadata.get(CONF.reservations.metadata_key_of_owner) for a in host_state.aggregates
        } - {None}
        return not owners or spec_obj.project_id in owners


class CallerRolesFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = {a.metadata["role"] for a in host_state.aggregates if "role" in a.metadata}
        return wanted <= set(spec_obj._context.roles)


class SameCpuCountFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        admin = context.get_admin_context()
        uuid = spec_obj.get_scheduler_hint("like")
        try:
            mapping = objects.InstanceMapping.get_by_instance_uuid(admin, uuid)
            with context.target_cell(admin, mapping.cell_mapping) as cell:
                instance = objects.Instance.get_by_uuid(cell, uuid)
                node = objects.ComputeNode.get_by_host_and_nodename(
                    cell, instance.host, instance.node
                )
        except (exception.InstanceMappingNotFound, exception.ComputeHostNotFound):
            return False
        return node.vcpus == host_state.vcpus_total
