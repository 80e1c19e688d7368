"""require_tenant_aggregate: confine projects to the aggregates that are tagged with them."""

from oslo_config import cfg

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World, confined

#: What metadata keys begin with that name a project.
_KEY = "filter_tenant_id"


class RequireTenantAggregate(BaseRequestFilter):
    """Confines a project to hosts in the aggregates that are tagged with it.

    An aggregate is a project's if its metadata have the project's id under ``filter_tenant_id``,
    or under a key that begins so (``filter_tenant_id3``): a value takes 255 characters, so that
    further projects need further keys. Commas in a value separate projects, as for
    AggregateMultiTenancyIsolation.

    A project that no aggregate is tagged with may use any host, the tagged ones included, unless
    ``[scheduler] placement_aggregate_required_for_tenants`` is set: then it finds no host. Other
    projects are not kept out of an aggregate by its tag; that is AggregateMultiTenancyIsolation's
    part. Off unless ``[scheduler] limit_tenants_to_placement_aggregate`` is set.
    """

    name = "require_tenant_aggregate"
    enabled_by = "limit_tenants_to_placement_aggregate"
    options = in_group(
        "scheduler",
        cfg.BoolOpt("limit_tenants_to_placement_aggregate", default=False),
        "Confine a project to the aggregates whose metadata name it under filter_tenant_id.",
        cfg.BoolOpt("placement_aggregate_required_for_tenants", default=False),
        "With limit_tenants_to_placement_aggregate: a project that no aggregate names finds no "
        "host, where else it may use any.",
    )

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal:
        """Return the request confined to its project's aggregates, if there are any."""
        project = spec.project_id or ""
        uuids = [one.uuid for one in world.host_aggregates() if project in _projects(one)]
        if uuids:
            return confined(spec, uuids)
        if self.settings.scheduler.placement_aggregate_required_for_tenants:
            return Refusal(f"no aggregate is tagged with project {project!r}", asked=project)
        return Outcome(spec)


def _projects(aggregate: HostAggregate) -> set[str]:
    tags = (value for key, value in aggregate.metadata.items() if key.startswith(_KEY))
    return {part.strip() for tag in tags for part in tag.split(",")} - {""}
