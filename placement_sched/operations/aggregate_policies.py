"""Keeps every host under one policy at most, and every aggregate's policy one that there is.

The document left the first to administrators and asked for its enforcement later ("Multiple Active
Scheduler Configurations/Drivers/Policies"). The callers have bumped the aggregates' change
counter: its lock makes writers take turns, so two of them cannot break together what each keeps.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import ConfigurationError, Conflict
from placement_sched.model.host_aggregate import HostAggregate, Tag, policy_name
from placement_sched.operations import policy_ratios
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import host_aggregates as store


def check_tagged(
    connection: Connection, aggregate: HostAggregate, value: str, policies: Policies | None
) -> None:
    """Raise :class:`Conflict` unless an aggregate may name this policy."""
    prefix = f"Cannot update aggregate {aggregate.id}"
    policy = policy_name(value)
    _check_known(prefix, aggregate, policy, policies)
    _check_disjoint(connection, prefix, aggregate, policy, aggregate.hosts)


def check_added(
    connection: Connection,
    aggregate: HostAggregate,
    hosts: Collection[str],
    policies: Policies | None,
) -> None:
    """Raise :class:`Conflict` unless these hosts may come under the aggregate's policy."""
    prefix = f"Cannot add host to aggregate {aggregate.id}"
    policy = aggregate.policy or ""
    _check_known(prefix, aggregate, policy, policies)
    _check_disjoint(connection, prefix, aggregate, policy, hosts)


def settle(
    connection: Connection, hosts: Collection[str], policies: Policies | None, now: datetime
) -> None:
    """Give what the hosts have the ratios of the policy that they are under now."""
    if policies is not None:
        policy_ratios.settle(connection, hosts, policies, now)


def faults(aggregates: Sequence[HostAggregate], policies: Policies) -> Iterator[str]:
    """Yield what is wrong with the policies of these aggregates: unknown ones, hosts under two."""
    for one in aggregates:
        if one.policy is not None:
            try:
                policies.get(one.policy)
            except ConfigurationError as wrong:
                yield (
                    f"aggregate {one.id} ({one.name}) is of the policy {one.policy!r}: "
                    f"{wrong.detail}"
                )
    tagged = {one.id: one for one in aggregates if one.policy}
    by_host: dict[str, list[int]] = {}
    for number, one in tagged.items():
        for host in one.hosts:
            by_host.setdefault(host, []).append(number)
    alike: dict[tuple[int, ...], list[str]] = {}
    for host, numbers in by_host.items():
        if len({tagged[number].policy for number in numbers}) > 1:
            alike.setdefault(tuple(numbers), []).append(host)
    for together, hosts in sorted(alike.items()):
        named = ", ".join(
            f"{tagged[number].policy!r} by aggregate {number} ({tagged[number].name})"
            for number in together
        )
        yield f"{_counted(hosts)} under several policies: {named}"


def _check_known(
    prefix: str, aggregate: HostAggregate, policy: str, policies: Policies | None
) -> None:
    if policies is None:
        return
    try:
        policies.get(policy)
    except ConfigurationError as wrong:
        raise Conflict(
            f"{prefix}: {aggregate.name} cannot be of the policy {policy!r}: {wrong.detail}."
        ) from None


def _check_disjoint(
    connection: Connection,
    prefix: str,
    aggregate: HostAggregate,
    policy: str,
    hosts: Collection[str],
) -> None:
    others: dict[Tag, list[str]] = {}
    for host, tag in _others(store.tags_of_hosts(connection, hosts), aggregate, policy):
        others.setdefault(tag, []).append(host)
    if others:
        tag, theirs = next(iter(others.items()))
        raise Conflict(
            f"{prefix}: {aggregate.name} is of the policy {policy!r}, and "
            f"{_counted(theirs)} under {tag.policy!r} already, by aggregate {tag.aggregate_id} "
            f"({tag.aggregate_name})."
        )


def _others(
    tags: Mapping[str, Sequence[Tag]], aggregate: HostAggregate, policy: str
) -> Iterator[tuple[str, Tag]]:
    """Yield each host with each other policy that another aggregate puts it under."""
    for host in sorted(tags):
        for tag in tags[host]:
            if tag.aggregate_id != aggregate.id and tag.policy != policy:
                yield host, tag


def _counted(hosts: Sequence[str]) -> str:
    return f"host {hosts[0]} is" if len(hosts) == 1 else f"hosts {listed(hosts)} are"


def listed(names: Collection[str]) -> str:
    """Return names in order; of many, the first few and how many more."""
    ordered = sorted(names)
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more
