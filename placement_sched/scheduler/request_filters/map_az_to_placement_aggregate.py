"""map_az_to_placement_aggregate: confine requests for a zone to the zone's aggregates."""

from collections.abc import Iterable

from placement_sched.model.aggregates import HostAggregate, zones
from placement_sched.model.names import names_instead, nearest
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler import request_filters
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World

#: How many of the zones that there are a reason names.
_SHOWN = 10
#: How many of the zones that are asked for are compared with those that there are.
_COMPARED = 10


class MapAZToPlacementAggregate(BaseRequestFilter):
    """Confines a request for an availability zone to hosts in aggregates of that zone.

    A zone is ``availability_zone`` in an aggregate's metadata. Commas, in the request and in the
    metadata alike, mean any of the zones named. A zone that no aggregate has finds no host, except
    ``[DEFAULT] default_availability_zone``: hosts in no aggregate with a zone are in it. As in
    nova, a zone that no aggregate has does not confine a request that names hosts or moves an
    instance. Always on.
    """

    name = "map_az_to_placement_aggregate"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the request confined to the zone, or None where it asks for none."""
        if not spec.availability_zone:
            return None
        wanted = zones(spec.availability_zone)  # empty for commas alone
        zoned = [agg for agg in world.host_aggregates() if zones(agg.availability_zone)]
        inside = [agg for agg in zoned if wanted & zones(agg.availability_zone)]
        if not inside and _names_hosts_or_moves(spec):
            return None
        if self.settings.DEFAULT.default_availability_zone in wanted:
            # What is in no zone is in the default one.
            return request_filters.kept_out(spec, [agg.uuid for agg in zoned if agg not in inside])
        if not inside:
            return self._unknown(spec.availability_zone, wanted, zoned)
        return request_filters.confined(spec, [agg.uuid for agg in inside])

    def _unknown(
        self, asked: str, wanted: Iterable[str], zoned: Iterable[HostAggregate]
    ) -> Refusal:
        """Return why a zone that no aggregate has finds no host, with the zones that there are."""
        known = {name for agg in zoned for name in zones(agg.availability_zone)}
        known.add(self.settings.DEFAULT.default_availability_zone)
        meant = [near for name in sorted(wanted)[:_COMPARED] for near in nearest(name, known)]
        names = ", ".join([*sorted(known)[:_SHOWN], *["..."] * (len(known) > _SHOWN)])
        why = f"no aggregate has the availability zone {asked!r} (zones: {names})"
        instead = names_instead("zone", meant[:1]) if meant or len(known) > _SHOWN else ""
        return Refusal(f"{why}{instead}", asked=asked)


def _names_hosts_or_moves(spec: RequestSpec) -> bool:
    """Return whether a request names hosts, or a cell or hosts to ignore as nova's moves do."""
    there = spec.destination
    named = (spec.force_hosts, spec.force_nodes, there.host, there.node)
    return any((*named, there.cell, spec.ignore_hosts))
