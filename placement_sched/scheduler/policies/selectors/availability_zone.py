"""Selects by availability zone."""

from placement_sched.model.aggregates import HostAggregate, zones
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class AvailabilityZoneSelector(BasePolicySelector):
    """Selects the aggregates whose ``availability_zone`` is one that the request asks for.

    Goes with AvailabilityZoneFilter and the request filter map_az_to_placement_aggregate. Commas
    separate zones, of a request as of an aggregate.
    """

    name = "availability_zone"
    aliases = ("AvailabilityZoneBasedSchedulerPolicyConfigurationSelection",)

    def asked(self, spec_obj: RequestSpec) -> str | None:
        """Return the zones of the request."""
        return spec_obj.availability_zone if zones(spec_obj.availability_zone) else None

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        """Return whether the aggregate is of one of these zones."""
        return not zones(spec_obj.availability_zone).isdisjoint(zones(aggregate.availability_zone))
