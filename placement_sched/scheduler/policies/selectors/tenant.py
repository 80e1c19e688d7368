# SPDX-License-Identifier: Apache-2.0
"""Policy selection by project."""

from placement_sched.model.aggregates import HostAggregate, list_projects
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class TenantSelector(BasePolicySelector):
    """Selector of the aggregates that are tagged with the request's project.

    Use it with AggregateMultiTenancyIsolation and the request filter require_tenant_aggregate. The
    tag is the project's id in the metadata, under ``filter_tenant_id`` or a key with this prefix.
    Commas separate projects.
    """

    name = "tenant"
    aliases = ("TenantBasedSchedulerPolicyConfigurationSelection",)

    def find_requested_value(self, spec_obj: RequestSpec) -> str | None:
        return spec_obj.project_id or None

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        return spec_obj.project_id in list_projects(aggregate)
