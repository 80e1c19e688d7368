# SPDX-License-Identifier: Apache-2.0
"""AggregateMultiTenancyIsolation: filter by the projects of aggregates."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.aggregates import TENANT_PREFIX, list_projects
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
    list_values,
)
from placement_sched.scheduler.filters.utils import OncePerAggregates

#: Maximum number of projects in a reason. An aggregate may name hundreds.
_MAX_NAMES = 3


class AggregateMultiTenancyIsolation(BaseHostFilter):
    """Filter for hosts that are not reserved for other projects.

    The metadata of an aggregate name projects under ``filter_tenant_id``, or under keys with this
    prefix (``filter_tenant_id3``). Commas separate projects. The projects of all aggregates of a
    host count together. A host in no such aggregate is open to all projects: to confine a project
    to its own hosts, use the request filter require_tenant_aggregate.
    """

    run_filter_once_per_request = True

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        project = spec_obj.project_id

        def check_host(host_state: HostState) -> Rejection | None:
            allowed = _collect_allowed_projects(host_state)
            if not allowed or project in allowed:
                return None
            values = list_values("projects", sorted(allowed), _MAX_NAMES)
            return Rejection(kind="project", requested=project, values=values)

        return OncePerAggregates(check_host).get_value

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        names = sorted(_collect_allowed_projects(host_state))
        values = {"key": TENANT_PREFIX, **list_values("allowed", names)}
        changed, project = replace(spec_obj, project_id=names[0]), spec_obj.project_id
        yield build_change("tag_aggregate", values, kind="project", spec=changed, project=project)


def _collect_allowed_projects(host_state: HostState) -> set[str]:
    return set[str]().union(*map(list_projects, host_state.aggregates))
