# SPDX-License-Identifier: Apache-2.0
"""TopologySpreadWeigher: weigher that spreads a server group over domains."""

from collections.abc import Collection

from oslo_config import cfg

from placement_sched.model.aggregates import HostAggregate
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class TopologySpreadWeigher(BaseHostWeigher):
    """Weigher that prefers failure domains with few members of the group.

    The soft form of TopologySpreadFilter: for requests with ``scheduler:spread_by`` but without
    ``scheduler:max_skew``, or with ``scheduler:spread_mode=soft``. The weight is the number of
    members in the domain of the host, negated. A host in no domain is worse than a host in any
    domain. Earlier instances of the request are members. For other requests the weigher does not
    run. nova has no such weigher.

    The multiplier is ``[filter_scheduler] topology_spread_weight_multiplier``. With the default,
    the weighers of free resources choose only among hosts in domains with the same number of
    members.
    """

    weight_option = cfg.FloatOpt("topology_spread_weight_multiplier", default=1000.0)
    weight_help = (
        "Multiplier of TopologySpreadWeigher, which prefers failure domains with few members of "
        "the request's server group, if the request spreads it."
    )

    def is_requested(self, spec_obj: RequestSpec, aggregates: Collection[HostAggregate]) -> bool:
        return spec_obj.spread is not None and not spec_obj.spread.request.is_hard

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        spread = spec_obj.spread
        if spread is None:
            return [0.0] * len(hosts)
        outside = 1 + max(spread.members.values(), default=0)
        counts = (spread.count_members(host.host) for host in hosts)
        return [-float(outside if count is None else count) for count in counts]
