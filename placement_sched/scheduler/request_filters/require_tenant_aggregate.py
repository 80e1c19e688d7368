# SPDX-License-Identifier: Apache-2.0
"""require_tenant_aggregate: request filter by the aggregates of projects."""

from oslo_config import cfg

from placement_sched.model.aggregates import list_projects
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    require_aggregates,
)


class RequireTenantAggregate(BaseRequestFilter):
    """Request filter that confines a project to the aggregates tagged with it.

    An aggregate is tagged if its metadata have the project's id under ``filter_tenant_id``, or
    under a key with this prefix (``filter_tenant_id3``). A value has at most 255 characters, which
    is why many projects need several keys. Commas in a value separate projects, as for
    AggregateMultiTenancyIsolation.

    A project without aggregates may use any host, including hosts of tagged aggregates, unless
    ``[scheduler] placement_aggregate_required_for_tenants`` is set. Such a project then finds no
    host. A tag does not exclude other projects: enable AggregateMultiTenancyIsolation for this.
    Enabled by ``[scheduler] limit_tenants_to_placement_aggregate``. The default is false.
    """

    name = "require_tenant_aggregate"
    enabled_by = "limit_tenants_to_placement_aggregate"
    options = build_group_options(
        "scheduler",
        cfg.BoolOpt("limit_tenants_to_placement_aggregate", default=False),
        "Confine a project to the aggregates whose metadata name it under filter_tenant_id.",
        cfg.BoolOpt("placement_aggregate_required_for_tenants", default=False),
        "With limit_tenants_to_placement_aggregate: a project that no aggregate names finds no "
        "host. Otherwise it may use any host.",
    )

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection:
        project = spec.project_id or ""
        aggregates = context.host_aggregates() if project else ()
        uuids = [each.uuid for each in aggregates if project in list_projects(each)]
        if uuids:
            return require_aggregates(spec, uuids)
        if self.settings.scheduler.placement_aggregate_required_for_tenants:
            return Rejection(kind="no_project_aggregate", requested=project)
        return RequestFilterResult(spec)
