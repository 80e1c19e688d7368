# SPDX-License-Identifier: Apache-2.0
from nova.scheduler import weights
from nova.scheduler.client.report import SchedulerReportClient


class UsageWeigher(weights.BaseHostWeigher):
    def __init__(self):
        self.client = SchedulerReportClient()

    def _weigh_object(self, host_state, weight_properties):
        response = self.client.get(f"/resource_providers/{host_state.uuid}/usages", version="1.9")
        assert response.status_code == 200
        return -response.json()["usages"]["VCPU"]
