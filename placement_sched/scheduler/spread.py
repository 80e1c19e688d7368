# SPDX-License-Identifier: Apache-2.0
"""Spread of the members of server groups over failure domains.

Members are counted before the hosts are filtered. A hard spread, which rejects hosts, is checked
again while the claim has locked the server group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.explain.phrases import describe_rejection
from placement_sched.explain.values import FLAVOR, IneffectiveKey
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.names import suggest_name
from placement_sched.model.preferences import (
    EXTRA_SPECS,
    MAX_SKEW,
    NAMESPACE,
    SPREAD_BY,
    SPREAD_MODE,
    Spread,
    find_spread_request,
)
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import Aggregates
from placement_sched.scheduler.host_manager import RequestView
from placement_sched.store.compute import instances, server_groups


def with_spread(view: RequestView, spec: RequestSpec) -> RequestSpec:
    """Return a request with its group members counted by failure domain.

    Raises :class:`Invalid` for invalid values, and for a hard spread over a metadata key that no
    aggregate has. A request without a spread or a server group is returned unchanged.
    """
    request = find_spread_request(spec.flavor.extra_specs, spec.scheduler_hints)
    group = spec.instance_group
    if request is None or group is None or spec.is_rebuild:
        return spec
    aggregates = view.aggregates
    domains = aggregates.map_domains(request.key)
    if not domains:
        if request.is_hard:
            raise Invalid(_describe_missing(request.key, aggregates), json_path=request.path)
        return spec
    # A domain is eligible if it has a host in the allowed aggregates, even without capacity.
    # Required aggregates that are no host aggregates are ignored.
    by_uuid = {aggregate.uuid: aggregate for aggregate in aggregates.all}
    hosts = frozenset(domains)
    for joined in spec.destination.aggregates:
        named = [by_uuid[uuid] for uuid in joined.split(",") if uuid in by_uuid]
        hosts = hosts & _collect_hosts(named) if named else hosts
    forbidden = spec.destination.forbidden
    hosts -= _collect_hosts(by_uuid[uuid] for uuid in forbidden if uuid in by_uuid)
    eligible = frozenset(domain for host in hosts for domain in domains[host])
    spread = Spread(request, domains, eligible)
    counted = _count_members(view.connection, spread, spec, group, view.unclaimed_hosts)
    return replace(spec, spread=counted)


def check_spread(connection: Connection, spec: RequestSpec, hosts: Iterable[str]) -> None:
    """Check a hard spread again with the current members of the server group.

    ``spec`` is the request at the selection. The stored group is locked until the transaction ends.
    Raises :class:`ConcurrentUpdate` if a skew would now be too large.
    """
    spread, group = spec.spread, spec.instance_group
    if spread is None or not spread.request.is_hard or group is None:
        return
    if group.uuid is not None and server_groups.lock(connection, group.uuid):
        uuids = spec.instance_uuids
        stored = server_groups.with_members(connection, group, without=uuids)
        group = replace(group, members=tuple({*group.members, *stored.members}))
    spread = _count_members(connection, spread, spec, group)
    for uuid, host in zip(spec.instance_uuids, hosts, strict=True):
        if rejection := spread.find_rejection(host, uuid, spread.find_emptiest_domain()):
            raise ConcurrentUpdate(f"the server group changed: {describe_rejection(rejection)}")
        spread = spread.with_member_on(host)


def iterate_ineffective_keys(spec: RequestSpec, view: RequestView) -> Iterator[IneffectiveKey]:
    """Yield extra specs and hints of this service without effect."""
    specs, hints = spec.flavor.extra_specs, spec.scheduler_hints
    for key in specs:
        if key.startswith(NAMESPACE) and key not in EXTRA_SPECS:
            suggestion = suggest_name("extra spec", key, EXTRA_SPECS)
            yield IneffectiveKey(key, FLAVOR, f"{key} has no effect{suggestion}")
    request = find_spread_request(specs, hints)
    if request is None:
        reason = f"has no effect without {SPREAD_BY}"
        for name in (MAX_SKEW, SPREAD_MODE):
            if name in hints:
                yield IneffectiveKey(name, "hint", f"hint {name} {reason}")
            if (key := f"{NAMESPACE}{name}") in specs:
                yield IneffectiveKey(key, FLAVOR, f"{key} {reason}")
        return
    if spec.instance_group is None:
        reason = "the request has no server group, so there are no members to spread"
    elif spec.spread is None and not spec.is_rebuild:
        reason = _describe_missing(request.key, view.aggregates)
    else:
        return
    is_hint = bool(hints.get(SPREAD_BY))
    name, source = (SPREAD_BY, "hint") if is_hint else (f"{NAMESPACE}{SPREAD_BY}", FLAVOR)
    yield IneffectiveKey(name, source, f"{name}={request.key} has no effect: {reason}")


def _describe_missing(key: str, aggregates: Aggregates) -> str:
    keys = {name for aggregate in aggregates.all for name in aggregate.metadata}
    return f"no aggregate with hosts has metadata {key!r}{suggest_name('key', key, keys)}"


def _count_members(
    connection: Connection,
    spread: Spread,
    spec: RequestSpec,
    group: ServerGroup,
    unclaimed_hosts: Mapping[str, str] = MappingProxyType({}),
) -> Spread:
    """Count a group's current members in each failure domain.

    ``unclaimed_hosts`` maps members that are not recorded yet to their hosts. Each host in
    ``group.hosts`` counts as at least 1 member, because its members may not be recorded.
    """
    instance_uuids = frozenset(spec.instance_uuids)
    recorded = instances.map_hosts(connection, instance_uuids.union(group.members))
    current_hosts = {uuid: recorded[uuid] for uuid in instance_uuids & recorded.keys()}
    earlier = {uuid: unclaimed_hosts[uuid] for uuid in unclaimed_hosts.keys() & {*group.members}}
    members = recorded | earlier
    number = Counter(host for uuid, host in members.items() if uuid not in instance_uuids)
    unrecorded = {*group.hosts} - number.keys() - {*recorded.values()}
    return replace(
        spread.with_members({**number, **dict.fromkeys(unrecorded, 1)}), current_hosts=current_hosts
    )


def _collect_hosts(aggregates: Iterable[HostAggregate]) -> frozenset[str]:
    return reduce(frozenset.union, (each.hosts for each in aggregates), frozenset())
