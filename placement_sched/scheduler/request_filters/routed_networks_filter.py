"""routed_networks_filter: confine requests to the hosts that their routed networks reach."""

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World, narrowed


class RoutedNetworksFilter(BaseRequestFilter):
    """Confines a request to hosts that a segment of each routed network asked for reaches.

    The subnets of a routed network are on segments, each of which reaches some of the hosts.
    neutron keeps a provider in placement for each segment, under the segment's id, and puts it
    into the aggregate of those hosts. A host must be in an aggregate of one of the network's
    segments; of several networks each must reach it. A port with a fixed IP stays on the segment
    of its subnet. Networks that are not routed reach every host, and so do networks that are not
    named yet (``auto``). A segment that is in no aggregate finds no host.

    The segments stand in the request (``segments`` in ``requested_networks``), else neutron is
    asked, see ``[neutron]``; where neither knows them, no host is found. Off unless ``[scheduler]
    query_placement_for_routed_network_aggregates`` is set.
    """

    name = "routed_networks_filter"
    enabled_by = "query_placement_for_routed_network_aggregates"
    options = in_group(
        "scheduler",
        cfg.BoolOpt("query_placement_for_routed_network_aggregates", default=False),
        "Confine requests to the hosts that the segments of their routed networks reach.",
    )

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the request confined to those hosts; None where every network reaches all."""
        asked = [network for network in spec.requested_networks if not network.is_open]
        unknown = next((one for one in asked if one.segments is None), None)
        if unknown is not None:
            return Refusal(
                f"the segments of {unknown.label} are not known: set [neutron] auth_type, or give "
                "them in requested_networks"
            )
        routed = [network for network in asked if network.segments]
        if not routed:
            return None
        joined = world.provider_aggregates({uuid for one in routed for uuid in one.segments or ()})
        for network in routed:
            lost = next((uuid for uuid in network.segments or () if not joined.get(uuid)), None)
            if lost is not None:
                return Refusal(f"{network.label}: its segment {lost} is in no aggregate", lost)
        # Each network once for all of its segments: a host must be in an aggregate of each set.
        found = ({agg for uuid in one.segments or () for agg in joined[uuid]} for one in routed)
        sets = dict.fromkeys(tuple(sorted(aggregates)) for aggregates in found)
        destination = spec.destination
        for aggregates in sets:
            destination = destination.requiring(aggregates)
        changes = {"aggregates": [",".join(each) for each in sets]}
        return Outcome(narrowed(spec, destination), changes)
