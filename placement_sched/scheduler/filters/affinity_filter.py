"""Filters that keep instances together or apart: by hints, by subnet and by server group."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from placement_sched.errors import Invalid
from placement_sched.model.server_group import AFFINITY, ANTI_AFFINITY, MOST_PER_HOST
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, Change, HostState, Question, Refusal
from placement_sched.scheduler.filters.changed_requests import without_hint
from placement_sched.scheduler.filters.utils import hinted_instances_on

_HINTS = "$.request_spec.scheduler_hints"


class DifferentHostFilter(BaseHostFilter):
    """Lets hosts pass that have none of the instances of the hint ``different_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    unlimited_hints = ("different_host",)
    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the instances that are on the host and the request is to keep away from."""
        asked, found = hinted_instances_on(host_state, spec_obj, "different_host")
        if not found:
            return None
        return Refusal(f"different_host: the host has {', '.join(found)}", asked, found)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Change]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "different_host")


class SameHostFilter(BaseHostFilter):
    """Lets hosts pass that have at least one of the instances of the hint ``same_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    unlimited_hints = ("same_host",)
    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the instances that the request is to be with, none of which is on the host."""
        asked, found = hinted_instances_on(host_state, spec_obj, "same_host")
        if found or not asked:
            return None
        return Refusal(f"same_host: the host has none of {', '.join(asked)}", asked, [])

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Change]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "same_host")


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Lets hosts pass whose address is in the same subnet as a given one.

    The hint ``build_near_host_ip`` is that address, ``cidr`` the length of the subnet's prefix:
    ``/24`` unless it says otherwise. A request without the address may go anywhere; a host that
    reported none of its own is near to nothing.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for an invalid address or prefix."""
        _asked(spec_obj)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the subnet asked for and the host's address, which is not in it."""
        subnet, address = _asked(spec_obj), host_state.host_ip
        if subnet is None or (address and ip_address(address) in subnet):
            return None
        found = f"{address} found" if address else "the host reports none"
        return Refusal(f"an address in {subnet} requested, {found}", str(subnet), address or None)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Change]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, "build_near_host_ip")


def _asked(spec_obj: RequestSpec) -> IPv4Network | IPv6Network | None:
    """Return the subnet that the hints describe, if they do."""
    address = spec_obj.get_scheduler_hint("build_near_host_ip")
    prefix = spec_obj.get_scheduler_hint("cidr", "/24")
    for name, value in (("build_near_host_ip", address), ("cidr", prefix)):
        if address and not isinstance(value, str):
            raise Invalid(f"one value is expected (at {_HINTS}.{name})")
    return _subnet(address, prefix) if address else None


@lru_cache
def _subnet(address: str, prefix: str) -> IPv4Network | IPv6Network:
    try:
        ip_address(address)
    except ValueError:
        raise Invalid(f"{address!r} is not an address (at {_HINTS}.build_near_host_ip)") from None
    try:
        return ip_network(f"{address}/{prefix.removeprefix('/')}", strict=False)
    except ValueError:
        raise Invalid(f"{prefix!r} is not a prefix of {address} (at {_HINTS}.cidr)") from None


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
        hosts = sorted(group.hosts)
        reason = f"the server group is on {', '.join(hosts)}"

        def refusal(host_state: HostState) -> Refusal | None:
            here = host_state.host
            return None if here in group.hosts else Refusal(reason, hosts, here)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Change]:
        """Return that the group would have to be here, or the request not of the group."""
        words = "ask for an instance that is not in the server group, or move its members here"
        yield Change("leave_group", words, spec=replace(spec_obj, instance_group=None))


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
        known, most = frozenset(group.members), group.rules.get(MOST_PER_HOST, 1)

        def refusal(host_state: HostState) -> Refusal | None:
            here = host_state.instances
            number = max(len(here.keys() & known), int(host_state.host in group.hosts))
            if number < most or spec_obj.instance_uuid in here:
                return None
            members = f"{number} member{'s' * (number != 1)} of the server group"
            return Refusal(f"{members} here, {most} allowed", most, number)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Change]:
        """Return what the group's rule would have to be."""
        group = spec_obj.instance_group
        if group is None:
            return
        here = len(host_state.instances.keys() & frozenset(group.members))
        most = max(here, int(host_state.host in group.hosts)) + 1
        words = f"move a member of the server group away, or raise {MOST_PER_HOST} to {most}"
        rules = {**group.rules, MOST_PER_HOST: most}
        asked = replace(spec_obj, instance_group=replace(group, rules=rules))
        yield Change("raise_rule", words, {MOST_PER_HOST: most}, spec=asked)


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """Is ``ServerGroupAntiAffinityFilter``, under the name that files of Icehouse know it by."""

    caps_group_members = True
