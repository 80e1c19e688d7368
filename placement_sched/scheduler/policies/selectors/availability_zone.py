# SPDX-License-Identifier: Apache-2.0
"""Policy selection by availability zone."""

from placement_sched.model.aggregates import HostAggregate, parse_zones
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class AvailabilityZoneSelector(BasePolicySelector):
    """Selector of the aggregates in a requested availability zone.

    Use it with AvailabilityZoneFilter and the request filter map_az_to_placement_aggregate. Commas
    separate zones, in the request and in the metadata.
    """

    name = "availability_zone"
    aliases = ("AvailabilityZoneBasedSchedulerPolicyConfigurationSelection",)

    def find_requested_value(self, spec_obj: RequestSpec) -> str | None:
        return spec_obj.availability_zone if parse_zones(spec_obj.availability_zone) else None

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        return not parse_zones(spec_obj.availability_zone).isdisjoint(
            parse_zones(aggregate.availability_zone)
        )
