"""AvailabilityZoneFilter: only hosts of the availability zone that is asked for."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.aggregates import ZONE_KEY, zones
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.utils import aggregate_values_from_key


class AvailabilityZoneFilter(BaseHostFilter):
    """Lets hosts pass that are in the availability zone which the request names, if it names one.

    A host's zones are ``availability_zone`` in the metadata of its aggregates; a host without is
    in ``[DEFAULT] default_availability_zone``. Commas, in the request and in the metadata alike,
    mean any of the zones named. The request filter map_az_to_placement_aggregate has asked for the
    zone before; nova had this filter until 2023.1.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the zone asked for and those that the host is in."""
        wanted = zones(spec_obj.availability_zone)
        if not wanted:
            return None
        has = self._zones(host_state)
        if wanted & has:
            return None
        asked, found = sorted(wanted), sorted(has)
        reason = f"zone {' or '.join(asked)} requested, the host is in {', '.join(found)}"
        return Refusal(reason, asked, found)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the zones to ask for."""
        for zone in sorted(self._zones(host_state)):
            asked = replace(spec_obj, availability_zone=zone)
            yield Remedy("ask", f"ask for zone {zone}", {"availability_zone": zone}, spec=asked)

    def _zones(self, host_state: HostState) -> set[str]:
        named = zones(",".join(aggregate_values_from_key(host_state, ZONE_KEY)))
        return set(named) or {self.settings.DEFAULT.default_availability_zone}
