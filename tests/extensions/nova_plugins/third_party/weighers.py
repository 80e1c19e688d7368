# SPDX-License-Identifier: Apache-2.0
"""Weighers of all releases."""

from datetime import datetime

from nova import db
from nova import weights as base_weights
from nova.openstack.common import cfg
from nova.scheduler import weights
from nova.scheduler import weights as host_weights
from nova.scheduler.client.report import SchedulerReportClient
from nova.scheduler.filters import utils
from oslo_utils import timeutils


class InstanceAgeWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        now = timeutils.utcnow()
        ages = [now - instance.created_at for instance in host_state.instances.values()]
        return -sum(age.total_seconds() for age in ages) - len(ages)


CONF = cfg.CONF
CONF.import_opt("cpu_allocation_ratio", "nova.scheduler.filters.core_filter")


class FreeCpuWeigher(host_weights.BaseHostWeigher):
    minval = 0

    def _weigh_object(self, host_state, weight_properties):
        return float(host_state.vcpus_total - host_state.vcpus_used)


class TotalCpuWeigher(base_weights.BaseWeigher):
    def _weight_multiplier(self):
        return -1.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.vcpus_total


class PreemptibleCountWeigher(weights.BaseHostWeigher):
    """Prefers hosts without preemptible instances."""

    def _weigh_object(self, host_state, request_spec):
        return -sum(
            1
            for instance in host_state.instances.values()
            if instance.system_metadata.get("preemptible") == "true"
        )


class PreemptibleDurationWeigher(weights.BaseHostWeigher):
    """Prefers hosts whose preemptible instances have run for few hours."""

    def _weigh_object(self, host_state, request_spec):
        now, hours = datetime(2026, 1, 2), 0
        for instance in host_state.instances.values():
            if instance.metadata.get("stop") == "any time":
                hours += (now - instance.launched_at).seconds // 3600
        return -hours


class DatabasePreemptibleWeigher(weights.BaseHostWeigher):
    """The first weigher, with look-ups in the database."""

    def _weigh_object(self, host_state, weight_properties):
        context, count = None, 0
        for instance in db.instance_get_all_by_host(context, host_state.host):
            metadata = db.instance_system_metadata_get(context, instance["uuid"])
            count += metadata.get("preemptible") == "true"
        return -count


class RackCountWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        racks = utils.aggregate_values_from_db(
            weight_properties["context"], host_state.host, "rack"
        )
        return len(racks)


class VcpuUsageWeigher(weights.BaseHostWeigher):
    def __init__(self):
        self.client = SchedulerReportClient()

    def _weigh_object(self, host_state, weight_properties):
        response = self.client.get(f"/resource_providers/{host_state.uuid}/usages", version="1.9")
        assert response.status_code == 200
        return -response.json()["usages"]["VCPU"]
