# SPDX-License-Identifier: Apache-2.0
"""routed_networks_filter: request filter by segments of routed networks."""

from oslo_config import cfg

from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
    with_destination,
)


class RoutedNetworksFilter(BaseRequestFilter):
    """Request filter for hosts that all requested routed networks reach.

    The subnets of a routed network are on segments, and each segment reaches some of the hosts. For
    each segment, neutron has a provider in placement with the segment's id, in an aggregate of
    these hosts. For each network, the host must be in an aggregate of at least a single segment. A
    port with a fixed IP stays on the segment of its subnet. Networks that are not routed, or not
    chosen yet (``auto``), reach every host. If a segment is in no aggregate, the request is
    rejected.

    The segments come from the request (``segments`` in ``requested_networks``), or else from
    neutron (see ``[neutron]``). If both lack them, the request is rejected. Enabled by
    ``[scheduler] query_placement_for_routed_network_aggregates``. The default is false.
    """

    name = "routed_networks_filter"
    enabled_by = "query_placement_for_routed_network_aggregates"
    options = build_group_options(
        "scheduler",
        cfg.BoolOpt("query_placement_for_routed_network_aggregates", default=False),
        "Confine requests to the hosts that the segments of their routed networks reach.",
    )

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | None:
        networks = [network for network in spec.requested_networks if not network.is_open]
        unresolved = next((network for network in networks if network.segments is None), None)
        if unresolved is not None:
            return Rejection(kind="routed_network", values={"network": unresolved.label})
        routed = [network for network in networks if network.segments]
        if not routed:
            return None
        joined = context.provider_aggregates(
            {uuid for net in routed for uuid in net.segments or ()}
        )
        for network in routed:
            lost = next((uuid for uuid in network.segments or () if not joined.get(uuid)), None)
            if lost is not None:
                values = {"network": network.label, "segment": lost}
                return Rejection(kind="routed_network", values=values)
        # A set of alternatives per network: a host must be in an aggregate of each set.
        choices = ({agg for uuid in net.segments or () for agg in joined[uuid]} for net in routed)
        sets = dict.fromkeys(tuple(sorted(aggregates)) for aggregates in choices)
        destination = spec.destination
        for aggregates in sets:
            destination = destination.requiring(aggregates)
        changes = {"aggregates": [",".join(each) for each in sets]}
        return RequestFilterResult(with_destination(spec, destination), changes)
