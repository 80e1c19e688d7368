# SPDX-License-Identifier: Apache-2.0
"""Weighers that count preemptible instances, and the hours that they have run."""

from datetime import datetime

from nova import db
from nova.scheduler import weights


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


class OldPreemptibleWeigher(weights.BaseHostWeigher):
    """The first weigher, with look-ups in the database."""

    def _weigh_object(self, host_state, weight_properties):
        context, count = None, 0
        for instance in db.instance_get_all_by_host(context, host_state.host):
            metadata = db.instance_system_metadata_get(context, instance["uuid"])
            count += metadata.get("preemptible") == "true"
        return -count
