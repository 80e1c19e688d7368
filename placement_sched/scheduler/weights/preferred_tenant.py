# SPDX-License-Identifier: Apache-2.0
"""PreferredTenantWeigher: weigher by the projects that aggregates prefer."""

from collections.abc import Collection

from oslo_config import cfg

from placement_sched.model.aggregates import HostAggregate, list_projects
from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    Hosts,
    RequestSpec,
    Weights,
    collect_aggregates,
)

#: Prefix of the metadata keys that name projects.
_PREFIX = "prefer_tenant_id"


class PreferredTenantWeigher(BaseHostWeigher):
    """Weigher that prefers hosts in aggregates for the project of the request.

    The metadata of an aggregate name projects under ``prefer_tenant_id``, or under keys with this
    prefix (``prefer_tenant_id3``). Commas separate projects. The weight is 1 for a host in any such
    aggregate, and 0 for other hosts. Other projects may use these hosts too. To keep them out, use
    AggregateMultiTenancyIsolation, which has the same syntax. If no aggregate of the hosts names
    the project, the weigher does not run. nova has no such weigher.

    The multiplier is ``[filter_scheduler] preferred_tenant_weight_multiplier``. With the default,
    the weighers of free resources cannot outweigh it.
    """

    minval = 0.0
    maxval = 1.0
    by_host = True
    weight_option = cfg.FloatOpt("preferred_tenant_weight_multiplier", default=1000.0)
    weight_help = (
        "Multiplier of PreferredTenantWeigher, which prefers hosts in aggregates whose metadata "
        "name the project under prefer_tenant_id. 0 ignores them."
    )

    def is_requested(self, spec_obj: RequestSpec, aggregates: Collection[HostAggregate]) -> bool:
        return any(spec_obj.project_id in list_projects(each, _PREFIX) for each in aggregates)

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        project, aggregates = spec_obj.project_id, collect_aggregates(hosts)
        preferring = {each.id for each in aggregates if project in list_projects(each, _PREFIX)}
        return [float(any(each.id in preferring for each in host.aggregates)) for host in hosts]
