"""What may be done with host aggregates, and what it does to provider aggregates.

Each function works within the caller's transaction and bumps the aggregates' change counter
first: that row's lock makes writers take turns, so two of them cannot both find a rule kept that
they break together. The rules are nova's (compute API reference, "Host aggregates"): a host is in
at most one availability zone, and no zone changes under instances. And a host is under at most one
policy (nova blueprint multiple-scheduler-drivers), whose ratios its inventories have; without
``policies`` it is not asked whether there is such a policy, and no ratio changes.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Conflict, Duplicate, Invalid, NotFound
from placement_sched.model.host_aggregate import POLICY_KEY, ZONE_KEY, HostAggregate
from placement_sched.operations import aggregate_policies
from placement_sched.operations.aggregate_policies import listed
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import aggregates as provider_aggregates
from placement_sched.store import change_counters
from placement_sched.store import host_aggregates as store


def get(connection: Connection, aggregate_id: int) -> HostAggregate:
    """Return an aggregate; raises :class:`NotFound`."""
    found = store.by_id(connection, aggregate_id)
    if found is None:
        raise NotFound(f"Aggregate {aggregate_id} could not be found.")
    return found


def create(
    connection: Connection, uuid: str, name: str, zone: str | None, now: datetime
) -> HostAggregate:
    """Create an aggregate, a zone where one is named; raises :class:`Duplicate`."""
    change_counters.bump(connection, store.SUBJECT)
    _check_name_is_free(connection, name)
    number = store.add(connection, uuid, name, now)
    if zone is not None:
        store.change_metadata(connection, number, {ZONE_KEY: zone}, now)
    return get(connection, number)


def update(
    connection: Connection, aggregate_id: int, fields: Mapping[str, str | None], now: datetime
) -> HostAggregate:
    """Change the ``name`` or the ``availability_zone`` of an aggregate, or both.

    Raises :class:`NotFound`, :class:`Duplicate`, and :class:`Invalid` for a zone that cannot be.
    """
    change_counters.bump(connection, store.SUBJECT)
    aggregate = get(connection, aggregate_id)
    name = fields.get("name")
    if name is not None and name != aggregate.name:
        _check_name_is_free(connection, name)
        store.rename(connection, aggregate_id, name)
    if ZONE_KEY in fields:
        _check_zone(connection, aggregate, fields[ZONE_KEY])
        store.change_metadata(connection, aggregate_id, {ZONE_KEY: fields[ZONE_KEY]}, now)
    store.touch(connection, aggregate_id, now)
    return get(connection, aggregate_id)


def set_metadata(
    connection: Connection,
    aggregate_id: int,
    changes: Mapping[str, str | None],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Set metadata keys of an aggregate; None removes a key, keys not named stay.

    Raises :class:`NotFound`, :class:`Invalid` for a zone that cannot be, and :class:`Conflict` for
    a policy that is not there or is not that of another aggregate of its hosts.
    """
    change_counters.bump(connection, store.SUBJECT)
    aggregate = get(connection, aggregate_id)
    if ZONE_KEY in changes:
        _check_zone(connection, aggregate, changes[ZONE_KEY])
    if (policy := changes.get(POLICY_KEY)) is not None:
        aggregate_policies.check_tagged(connection, aggregate, policy, policies)
    store.change_metadata(connection, aggregate_id, changes, now)
    if POLICY_KEY in changes:
        aggregate_policies.settle(connection, aggregate.hosts, policies, now)
    store.touch(connection, aggregate_id, now)
    return get(connection, aggregate_id)


def add_hosts(
    connection: Connection,
    aggregate_id: int,
    hosts: Collection[str],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Put hosts, and the providers of their compute nodes, into an aggregate: all or none.

    Raises :class:`NotFound` for an unknown host or aggregate, :class:`Conflict` where a host is in
    it already, is in another zone, would change zone under its instances, or is under another
    policy, and where the aggregate's is not there.
    """
    change_counters.bump(connection, store.SUBJECT)
    unknown = sorted(set(hosts) - store.known_hosts(connection, hosts))
    if unknown:
        raise NotFound(f"Compute host {', '.join(unknown)} could not be found.")
    aggregate = get(connection, aggregate_id)
    present = sorted(aggregate.hosts.intersection(hosts))
    if present:
        raise Conflict(f"Aggregate {aggregate_id} already has host {', '.join(present)}.")
    if aggregate.availability_zone is not None:
        _check_zone_of_added(connection, aggregate, hosts)
    if aggregate.policy is not None:
        aggregate_policies.check_added(connection, aggregate, hosts, policies)
    store.add_hosts(connection, aggregate_id, hosts, now)
    providers = store.provider_ids_of_hosts(connection, hosts)
    provider_aggregates.add_members(connection, aggregate.uuid, providers, now)
    if aggregate.policy is not None:
        aggregate_policies.settle(connection, hosts, policies, now)
    return get(connection, aggregate_id)


def remove_host(
    connection: Connection,
    aggregate_id: int,
    host: str,
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Take a host, and the providers of its compute nodes, out of an aggregate.

    Raises :class:`NotFound` where it is not in it, :class:`Conflict` where it would leave its
    zone under its instances.
    """
    change_counters.bump(connection, store.SUBJECT)
    aggregate = store.by_id(connection, aggregate_id)
    if aggregate is None or host not in aggregate.hosts:
        raise NotFound(f"Cannot remove host {host}: it is not in aggregate {aggregate_id}.")
    if aggregate.availability_zone is not None:
        _check_zone_of_removed(connection, aggregate, host)
    store.remove_host(connection, aggregate_id, host)
    providers = store.provider_ids_of_hosts(connection, [host])
    provider_aggregates.remove_members(connection, aggregate.uuid, providers, now)
    if aggregate.policy is not None:
        aggregate_policies.settle(connection, [host], policies, now)
    return get(connection, aggregate_id)


def delete(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate; raises :class:`NotFound`, and :class:`Invalid` while it has hosts."""
    change_counters.bump(connection, store.SUBJECT)
    aggregate = get(connection, aggregate_id)
    if aggregate.hosts:
        raise Invalid(
            f"Cannot delete aggregate {aggregate_id}: host aggregate is not empty, "
            f"it has {len(aggregate.hosts)} host(s)."
        )
    store.remove(connection, aggregate_id)


def _check_name_is_free(connection: Connection, name: str) -> None:
    if store.id_of_name(connection, name) is not None:
        raise Duplicate(f"Aggregate {name} already exists.")


def _check_zone(connection: Connection, aggregate: HostAggregate, zone: str | None) -> None:
    """Raise :class:`Invalid` unless the aggregate may become this zone."""
    prefix = f"Cannot update aggregate {aggregate.id}"
    if not zone:
        raise Invalid(f"{prefix}: {aggregate.name} cannot have an empty named availability zone.")
    others = {
        name
        for named in store.zones_of_hosts(connection, aggregate.hosts).values()
        for number, name in named.items()
        if number != aggregate.id and name != zone
    }
    if others:
        raise Invalid(
            f"{prefix}: one or more hosts already in availability zone(s) {listed(others)}."
        )
    if zone == aggregate.availability_zone:
        return
    busy = store.hosts_with_instances(connection, aggregate.hosts)
    if busy:
        raise Invalid(
            f"{prefix}: one or more hosts contain instances in this zone: {listed(busy)}."
        )


def _check_zone_of_added(
    connection: Connection, aggregate: HostAggregate, hosts: Collection[str]
) -> None:
    """Raise :class:`Conflict` unless these hosts may be in the aggregate's zone."""
    prefix = f"Cannot add host to aggregate {aggregate.id}"
    zones = store.zones_of_hosts(connection, hosts)
    mine = aggregate.availability_zone
    others = {name for named in zones.values() for name in named.values()} - {mine}
    if others:
        there = [host for host, named in zones.items() if others.intersection(named.values())]
        raise Conflict(
            f"{prefix}: one or more hosts already in availability zone(s) {listed(others)}: "
            f"{listed(there)}."
        )
    busy = store.hosts_with_instances(connection, set(hosts) - set(zones))
    if busy:
        raise Conflict(
            f"{prefix}: {listed(busy)} would come into availability zone "
            f"{aggregate.availability_zone} with the instances that are on it; move them first."
        )


def _check_zone_of_removed(connection: Connection, aggregate: HostAggregate, host: str) -> None:
    """Raise :class:`Conflict` where the host's instances would find themselves out of the zone."""
    zones = store.zones_of_hosts(connection, [host]).get(host, {})
    if any(number != aggregate.id for number in zones):
        return  # another aggregate keeps it in the zone: a host is never in two of them
    if store.hosts_with_instances(connection, [host]):
        raise Conflict(
            f"Cannot remove host from aggregate {aggregate.id}: {host} would leave availability "
            f"zone {aggregate.availability_zone} with the instances that are on it; "
            "move them first."
        )
