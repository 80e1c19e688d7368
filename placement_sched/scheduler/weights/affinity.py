# SPDX-License-Identifier: Apache-2.0
"""Weighers by the soft policies of server groups."""

from typing import ClassVar

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class _ServerGroupSoftWeigher(BaseHostWeigher):
    """Base class of weighers by the number of group members on a host."""

    by_host = True
    worth: ClassVar[int]

    def concerns(self, spec_obj: RequestSpec) -> bool:
        group = spec_obj.instance_group
        if group is None or group.policy != self.server_group_policy:
            return False
        return bool(group.members or _find_hosts_of_unnamed(spec_obj))

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        group = spec_obj.instance_group
        if group is None or not self.concerns(spec_obj):
            return [0] * len(hosts)
        members, unnamed = frozenset(group.members), _find_hosts_of_unnamed(spec_obj)
        return [
            self.worth * max(len(members.intersection(host.instances)), int(host.host in unnamed))
            for host in hosts
        ]


def _find_hosts_of_unnamed(spec: RequestSpec) -> frozenset[str]:
    """Return the group's hosts for an explanation without instance uuids."""
    group = spec.instance_group if spec.instance_uuid is None else None
    return frozenset(group.hosts if group else ())


class ServerGroupSoftAffinityWeigher(_ServerGroupSoftWeigher):
    """Weigher that prefers the host with the most members of the server group.

    The group is the request's server group with policy ``soft-affinity``. The members include the
    instances that the same request has already placed. The multiplier is ``[filter_scheduler]
    soft_affinity_weight_multiplier``. If this weigher is not enabled, requests of such groups are
    rejected.
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
    """Weigher that prefers the host with the fewest members of the group.

    The group is the request's server group with policy ``soft-anti-affinity``. The members include
    the instances that the same request has already placed. The multiplier is ``[filter_scheduler]
    soft_anti_affinity_weight_multiplier``. If this weigher is not enabled, requests of such groups
    are rejected.
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
