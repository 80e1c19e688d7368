"""AggregateTypeAffinityFilter: only hosts whose aggregates are for the flavor."""

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.utils import aggregate_values_from_key
from placement_sched.scheduler.host_state import HostState


class AggregateTypeAffinityFilter(BaseHostFilter):
    """Lets hosts pass whose aggregates name the request's flavor, or none.

    The name of the flavor must be in ``instance_type`` of an aggregate's metadata; commas separate
    names. A host none of whose aggregates has the key is for every flavor.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the request's flavor and those that the host is for."""
        values = aggregate_values_from_key(host_state, "instance_type")
        names = sorted({name.strip() for value in values for name in value.split(",")})
        asked = spec_obj.flavor.name
        if not names or asked in names:
            return None
        reason = f"flavor {asked} asked, the host is for {', '.join(names)}"
        return Refusal(reason, asked, names)
