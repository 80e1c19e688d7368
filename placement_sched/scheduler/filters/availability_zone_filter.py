# SPDX-License-Identifier: Apache-2.0
"""AvailabilityZoneFilter: filter by availability zone."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.aggregates import ZONE_KEY, parse_zones
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
)
from placement_sched.scheduler.filters.utils import aggregate_values_from_key


class AvailabilityZoneFilter(BaseHostFilter):
    """Filter for hosts in the requested availability zone, if there is one.

    The zones of a host are ``availability_zone`` in the metadata of its aggregates. A host without
    a zone is in ``[DEFAULT] default_availability_zone``. Commas separate alternatives, in the
    request and in the metadata. The request filter map_az_to_placement_aggregate applies the same
    rule before the candidate search. nova had this filter until 2023.1.
    """

    run_filter_once_per_request = True

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        requested_zones = parse_zones(spec_obj.availability_zone)
        if not requested_zones:
            return None
        host_zones = self._list_zones(host_state)
        if requested_zones & host_zones:
            return None
        return Rejection(
            kind="availability_zone", requested=sorted(requested_zones), actual=sorted(host_zones)
        )

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        for zone in sorted(self._list_zones(host_state)):
            changed = replace(spec_obj, availability_zone=zone)
            values = {"availability_zone": zone}
            yield build_change("change_request", values, kind="availability_zone", spec=changed)

    def _list_zones(self, host_state: HostState) -> set[str]:
        names = parse_zones(",".join(aggregate_values_from_key(host_state, ZONE_KEY)))
        return set(names) or {self.settings.DEFAULT.default_availability_zone}
