"""Filters that keep instances together or apart: by hints and by server group."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.aggregates import AFFINITY, ANTI_AFFINITY, MOST_PER_HOST
from placement_sched.model.names import in_short
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Question, Refusal, Remedy
from placement_sched.scheduler.filters.changed_requests import without_hint
from placement_sched.scheduler.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from placement_sched.scheduler.filters.utils import hinted_instances, members_on

#: What nova has in this module.
__all__ = (
    "DifferentHostFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
)

#: Hosts and instances that a reason names; there may be thousands.
_SHOWN = 10


class DifferentHostFilter(BaseHostFilter):
    """Lets hosts pass that have none of the instances of the hint ``different_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    unlimited_hints = ("different_host",)
    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects hosts with instances that the request is to keep away from."""
        asked, unwanted = hinted_instances(spec_obj, "different_host")
        if not asked:
            return None

        def refusal(host_state: HostState) -> Refusal | None:
            found = sorted(unwanted.intersection(host_state.instances))
            if not found:
                return None
            return Refusal(f"different_host: the host has {in_short(found, _SHOWN)}", asked, found)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "different_host")


class SameHostFilter(BaseHostFilter):
    """Lets hosts pass that have at least one of the instances of the hint ``same_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    unlimited_hints = ("same_host",)
    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects hosts with none of the instances that the request is to be with."""
        asked, wanted = hinted_instances(spec_obj, "same_host")
        if not asked:
            return None
        reason = f"same_host: the host has none of {in_short(asked, _SHOWN)}"
        refusal = Refusal(reason, asked, ())
        return lambda host_state: refusal if wanted.isdisjoint(host_state.instances) else None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "same_host")


class ServerGroupAffinityFilter(BaseHostFilter):
    """Lets only those hosts pass that have members of the request's server group.

    For groups of policy ``affinity``; while the group is nowhere yet, every host passes. A request
    joins a group by ``instance_group``, or by the hint ``group``.
    """

    server_group_policy = AFFINITY
    unlimited_hints = ("group",)

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects hosts that the group is not on."""
        group = spec_obj.instance_group
        if group is None or AFFINITY not in group.policies or not group.hosts:
            return None
        known = spec_obj.read_once(group.hosts, frozenset)
        hosts = spec_obj.read_once(known, sorted)
        reason = f"the server group is on {in_short(hosts, _SHOWN)}"

        def refusal(host_state: HostState) -> Refusal | None:
            here = host_state.host
            return None if here in known else Refusal(reason, hosts, here)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that the group would have to be here, or the request not of the group."""
        words = "ask for an instance that is not in the server group, or move its members here"
        yield Remedy("leave_group", words, spec=replace(spec_obj, instance_group=None))


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """Is ``ServerGroupAffinityFilter``, under the name that files of Icehouse know it by.

    In Icehouse that name stood for groups made by a hint alone, which server groups replaced.
    """


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Rejects hosts that have as many members of the request's server group as one host may have.

    For groups of policy ``anti-affinity``; a host may have ``max_server_per_host`` members (a rule
    of the group), one where the group has no such rule. The host that an instance is on already,
    and is only moved about, passes. A request joins a group by ``instance_group``, or by the hint
    ``group``; a host that a group described in the request names has one member at least.
    """

    server_group_policy = ANTI_AFFINITY
    caps_group_members = True
    unlimited_hints = ("group",)

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what compares the members of the group on a host with the most allowed."""
        group = spec_obj.instance_group
        if group is None or group.policy != ANTI_AFFINITY:
            return None
        most = group.rules.get(MOST_PER_HOST, 1)

        def refusal(host_state: HostState) -> Refusal | None:
            number = members_on(host_state, spec_obj, group)
            if number < most or spec_obj.instance_uuid in host_state.instances:
                return None
            members = f"{number} member{'s' * (number != 1)} of the server group"
            return Refusal(f"{members} here, {most} allowed", most, number)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return what the group's rule would have to be."""
        group = spec_obj.instance_group
        if group is None:
            return
        most = members_on(host_state, spec_obj, group) + 1
        words = f"move a member of the server group away, or raise {MOST_PER_HOST} to {most}"
        rules = {**group.rules, MOST_PER_HOST: most}
        asked = replace(spec_obj, instance_group=replace(group, rules=rules))
        yield Remedy("raise_rule", words, {MOST_PER_HOST: most}, spec=asked)


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """Is ``ServerGroupAntiAffinityFilter``, under the name that files of Icehouse know it by."""

    caps_group_members = True
