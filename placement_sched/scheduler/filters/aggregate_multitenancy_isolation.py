"""AggregateMultiTenancyIsolation: keep projects out of aggregates that are others'."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.names import in_short
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Question,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.changed_requests import listed
from placement_sched.scheduler.filters.utils import OncePerAggregates

#: What metadata keys begin with that name a project.
_KEY = "filter_tenant_id"
#: Projects that a reason names; there may be hundreds.
_SHOWN = 3


class AggregateMultiTenancyIsolation(BaseHostFilter):
    """Lets a host pass whose aggregates are tagged with the request's project, or with none.

    The tag is the project's id under ``filter_tenant_id``, or under a key that begins so
    (``filter_tenant_id3``), in an aggregate's metadata; commas separate projects. The tags of all
    of a host's aggregates count together. A host in no tagged aggregate is for everybody: to
    confine a project to its own hosts is the request filter require_tenant_aggregate's part.
    """

    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return what rejects hosts that are for other projects than the request's."""
        asked = spec_obj.project_id

        def refusal(host_state: HostState) -> Refusal | None:
            allowed = _allowed(host_state)
            if not allowed or asked in allowed:
                return None
            names = sorted(allowed)
            reason = f"requested by project {asked}, the host is for {in_short(names, _SHOWN)}"
            return Refusal(reason, asked, names)

        return OncePerAggregates(refusal).of

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that an aggregate of the host may be tagged with the project as well."""
        names = sorted(_allowed(host_state))
        words = f"add project {spec_obj.project_id} to {_KEY} of its aggregates"
        asked = replace(spec_obj, project_id=names[0])
        yield Remedy("tag_aggregate", words, {"key": _KEY, **listed("allowed", names)}, spec=asked)


def _allowed(host_state: HostState) -> set[str]:
    return {
        part.strip()
        for aggregate in host_state.aggregates
        for key, value in aggregate.metadata.items()
        if key.startswith(_KEY)
        for part in value.split(",")
    }
