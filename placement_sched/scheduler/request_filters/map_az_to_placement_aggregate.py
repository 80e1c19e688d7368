# SPDX-License-Identifier: Apache-2.0
"""map_az_to_placement_aggregate: request filter by availability zone."""

from collections.abc import Iterable
from typing import Any

from placement_sched.limits import MAX_COMPARED_NAMES
from placement_sched.model.aggregates import HostAggregate, parse_zones
from placement_sched.model.names import find_nearest
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler import request_filters
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
)

_MAX_NAMES = 10


class MapAZToPlacementAggregate(BaseRequestFilter):
    """Request filter that confines a request to its availability zone.

    A zone is ``availability_zone`` in an aggregate's metadata. Commas separate alternatives, in the
    request and in the metadata. Hosts in no aggregate with a zone are in ``[DEFAULT]
    default_availability_zone``. A request for an unknown zone is rejected. As in nova, an unknown
    zone does not confine a request that names hosts or moves an instance. Always enabled.
    """

    name = "map_az_to_placement_aggregate"

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | None:
        if not spec.availability_zone:
            return None
        requested_zones = parse_zones(spec.availability_zone)  # empty for commas alone
        zoned = [agg for agg in context.host_aggregates() if parse_zones(agg.availability_zone)]
        inside = [agg for agg in zoned if requested_zones & parse_zones(agg.availability_zone)]
        destination = spec.destination
        named = (spec.force_hosts, spec.force_nodes, destination.host, destination.node)
        if not inside and any((*named, destination.cell, spec.ignore_hosts)):
            return None
        if self.settings.DEFAULT.default_availability_zone in requested_zones:
            # Hosts in no zone are in the default zone.
            return request_filters.forbid_aggregates(
                spec, [agg.uuid for agg in zoned if agg not in inside]
            )
        if not inside:
            return self._reject_unknown_zone(spec.availability_zone, requested_zones, zoned)
        return request_filters.require_aggregates(spec, [agg.uuid for agg in inside])

    def _reject_unknown_zone(
        self, requested: str, requested_zones: Iterable[str], zoned: Iterable[HostAggregate]
    ) -> Rejection:
        existing = {name for agg in zoned for name in parse_zones(agg.availability_zone)}
        existing.add(self.settings.DEFAULT.default_availability_zone)
        nearby = [
            near
            for name in sorted(requested_zones)[:MAX_COMPARED_NAMES]
            for near in find_nearest(name, existing)
        ]
        values: dict[str, Any] = {
            "zones": sorted(existing)[:_MAX_NAMES],
            "similar_names": nearby[:1],
        }
        if (more := len(existing) - _MAX_NAMES) > 0:
            values["more"] = more
        return Rejection(kind="unknown_zone", requested=requested, values=values)
