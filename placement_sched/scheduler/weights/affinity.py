"""ServerGroupSoftAffinityWeigher and ServerGroupSoftAntiAffinityWeigher: enforce soft policies."""

from typing import ClassVar

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class _ServerGroupSoftWeigher(BaseHostWeigher):
    """Counts the members of the request's server group on each host, where it has the policy."""

    by_host = True
    counts_members = True
    #: What each member on a host is worth.
    worth: ClassVar[int]

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether the request is of a group of this policy that is on any host yet."""
        group = spec_obj.instance_group
        if group is None or group.policy != self.server_group_policy:
            return False
        return bool(group.members or _hosts_of_unnamed(spec_obj))

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the worth of the members on each host."""
        group = spec_obj.instance_group
        if group is None or not self.concerns(spec_obj):
            return [0] * len(hosts)
        members, unnamed = frozenset(group.members), _hosts_of_unnamed(spec_obj)
        return [
            self.worth * max(len(members.intersection(host.instances)), int(host.host in unnamed))
            for host in hosts
        ]


def _hosts_of_unnamed(spec: RequestSpec) -> frozenset[str]:
    """Return the hosts of the group, where its new members have no uuid by which to be found.

    So are those of an explanation that asks for a number of instances; nova knows no such request.
    """
    unnamed = spec.instance_group if spec.instance_uuid is None else None
    return frozenset(unnamed.hosts if unnamed else ())


class ServerGroupSoftAffinityWeigher(_ServerGroupSoftWeigher):
    """Prefers the host with the most members of the request's server group.

    Only where the group's policy is ``soft-affinity``; members that this very request placed
    before count as well. The multiplier is ``[filter_scheduler] soft_affinity_weight_multiplier``;
    aggregate metadata of that name override it for the hosts in the aggregate, and of several the
    smallest counts. Where this weigher is not enabled, requests of such groups are refused.
    """

    server_group_policy = "soft-affinity"
    worth = 1
    weight_option = cfg.FloatOpt(
        "soft_affinity_weight_multiplier", default=1.0, min=0, deprecated_group="DEFAULT"
    )
    weight_help = (
        "Multiplier of ServerGroupSoftAffinityWeigher, which prefers hosts with members of the "
        "request's server group, if its policy is soft-affinity."
    )


class ServerGroupSoftAntiAffinityWeigher(_ServerGroupSoftWeigher):
    """Prefers the host with the fewest members of the request's server group.

    Only where the group's policy is ``soft-anti-affinity``; members that this very request placed
    before count as well. The multiplier is ``[filter_scheduler]
    soft_anti_affinity_weight_multiplier``; aggregate metadata of that name override it for the
    hosts in the aggregate, and of several the smallest counts. Where this weigher is not enabled,
    requests of such groups are refused.
    """

    server_group_policy = "soft-anti-affinity"
    worth = -1
    weight_option = cfg.FloatOpt(
        "soft_anti_affinity_weight_multiplier", default=1.0, min=0, deprecated_group="DEFAULT"
    )
    weight_help = (
        "Multiplier of ServerGroupSoftAntiAffinityWeigher, which prefers hosts without members of "
        "the request's server group, if its policy is soft-anti-affinity."
    )
