# SPDX-License-Identifier: Apache-2.0
"""Filters for affinity and anti-affinity, by hints and server groups."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.aggregates import AFFINITY, ANTI_AFFINITY, MAX_SERVER_PER_HOST
from placement_sched.model.rejection import Rejection, SuggestedChanges
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    MAX_NAMES_IN_TEXT,
    BaseHostFilter,
    HostCheck,
    HostState,
    drop_hint,
    list_values,
)
from placement_sched.scheduler.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from placement_sched.scheduler.filters.utils import count_members, list_hinted_instances

#: The filters in nova's module with the same name.
__all__ = (
    "DifferentHostFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
)


class DifferentHostFilter(BaseHostFilter):
    """Filter for hosts without the instances of the hint ``different_host``.

    The hint is a uuid of an instance or a list of uuids. Without the hint all hosts pass.
    """

    unlimited_hints = ("different_host",)
    run_filter_once_per_request = True

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        hinted, unwanted = list_hinted_instances(spec_obj, "different_host")
        if not hinted:
            return None

        def check_host(host_state: HostState) -> Rejection | None:
            uuids = sorted(unwanted.intersection(host_state.instances))
            if not uuids:
                return None
            values = list_values("instances", uuids, MAX_NAMES_IN_TEXT)
            return Rejection(kind="different_host", values=values)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield drop_hint(spec_obj, "different_host")


class SameHostFilter(BaseHostFilter):
    """Filter for hosts with at least one instance of the hint ``same_host``.

    The hint is a uuid of an instance or a list of uuids. Without the hint all hosts pass.
    """

    unlimited_hints = ("same_host",)
    run_filter_once_per_request = True

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        hinted, uuids = list_hinted_instances(spec_obj, "same_host")
        if not hinted:
            return None
        values = list_values("instances", hinted, MAX_NAMES_IN_TEXT)
        rejection = Rejection(kind="same_host", values=values)
        return lambda host_state: rejection if uuids.isdisjoint(host_state.instances) else None

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield drop_hint(spec_obj, "same_host")


class ServerGroupAffinityFilter(BaseHostFilter):
    """Filter for hosts with members of an ``affinity`` server group.

    If the group has no hosts, every host passes. The hint ``group`` names the group.
    """

    server_group_policy = AFFINITY
    unlimited_hints = ("group",)

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        group = spec_obj.instance_group
        if group is None or AFFINITY not in group.policies or not group.hosts:
            return None
        group_hosts = spec_obj.read_once(group.hosts, frozenset)
        hosts = spec_obj.read_once(group_hosts, sorted)
        values = list_values("hosts", hosts, MAX_NAMES_IN_TEXT)
        rejection = Rejection(kind="affinity", values=values)
        return lambda host_state: None if host_state.host in group_hosts else rejection

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        changed = replace(spec_obj, instance_group=None)
        yield build_change("leave_group", kind="affinity", spec=changed)


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """``ServerGroupAffinityFilter`` under an old name of Icehouse.

    In Icehouse the name stood for groups made by a hint alone, which server groups replaced.
    """


class ServerGroupAntiAffinityFilter(BaseHostFilter):
    """Filter for hosts with few members of an ``anti-affinity`` server group.

    A host may have ``max_server_per_host`` members (a rule of the group), or 1 if there is no such
    rule. The current host of an instance that moves always passes. The hint ``group`` names the
    group. A host in the ``hosts`` of the group counts as a host with at least 1 member.
    """

    server_group_policy = ANTI_AFFINITY
    caps_group_members = True
    unlimited_hints = ("group",)

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        group = spec_obj.instance_group
        if group is None or group.policy != ANTI_AFFINITY:
            return None
        maximum = group.rules.get(MAX_SERVER_PER_HOST, 1)

        def check_host(host_state: HostState) -> Rejection | None:
            count = count_members(host_state, spec_obj, group)
            if count < maximum or spec_obj.instance_uuid in host_state.instances:
                return None
            values = {"members": count, "maximum": maximum}
            return Rejection(kind="anti_affinity", values=values)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        group = spec_obj.instance_group
        if group is None:
            return
        maximum = count_members(host_state, spec_obj, group) + 1
        rules = {**group.rules, MAX_SERVER_PER_HOST: maximum}
        changed = replace(spec_obj, instance_group=replace(group, rules=rules))
        yield build_change("raise_rule", {MAX_SERVER_PER_HOST: maximum}, spec=changed)


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """``ServerGroupAntiAffinityFilter`` under an old name of Icehouse."""

    caps_group_members = True
