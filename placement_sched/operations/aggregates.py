# SPDX-License-Identifier: Apache-2.0
"""Changes of host aggregates and of placement aggregates of the same uuid.

Each change runs within the caller's transaction and first increments the change counter of
aggregates. The row lock of the counter serializes writers: no two writers break a rule together.
The rules are nova's (compute API reference, "Host aggregates"): a host is in at most one
availability zone, and the zone of a host with instances does not change. A host also has at most
one scheduling policy (nova blueprint multiple-scheduler-drivers), which sets the allocation ratios
of its inventories. If ``policies`` is None, policy names are not checked, and ratios stay.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.failover import ServerEpoch, get_epoch
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConfigurationError, Conflict, Duplicate, Invalid, NotFound
from placement_sched.model.aggregates import (
    POLICY_KEY,
    ZONE_KEY,
    HostAggregate,
    PolicyTag,
    parse_policy_name,
)
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import RATIOS, ComputeNode, Service
from placement_sched.model.grouping import split_batches
from placement_sched.model.names import format_count, shorten_names
from placement_sched.operations import Progress
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.caches import AggregateCache
from placement_sched.scheduler.policies.registry import (
    NO_RATIOS,
    Policies,
    find_ratios,
    get_policies,
)
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, services
from placement_sched.store.placement import aggregates as provider_aggregates
from placement_sched.store.placement import inventories, resource_providers

LOG = log.getLogger(__name__)

#: Maximum number of hosts per transaction. Other writers wait for the transaction's locks.
BATCH_SIZE = 500


def list_policies_in_use(settings: Settings) -> frozenset[str]:
    """Return the policies that aggregates name, none if the database is down."""
    with Database(settings) as database:
        return AggregateCache().read_policies_in_use(database)


def _check_policy(
    connection: Connection,
    aggregate: HostAggregate,
    policy: str,
    hosts: Collection[str],
    policies: Policies | None,
    error_prefix: str,
) -> None:
    """Raise :class:`Conflict` for a policy that any of the hosts cannot use."""
    about = f"{error_prefix} {aggregate.id}: {aggregate.name}"
    if policies is not None and (fault := _find_fault(policy, policies)):
        raise Conflict(f"{about} cannot use policy {policy!r}: {fault}.")
    conflicting: dict[PolicyTag, list[str]] = defaultdict(list)
    for host, tags in sorted(host_aggregates.map_tags(connection, hosts).items()):
        for tag in tags:
            if tag.aggregate_id != aggregate.id and tag.policy != policy:
                conflicting[tag].append(host)
    for tag, names in conflicting.items():
        raise Conflict(
            f"{about} names policy {policy!r}, but {_format_hosts(names)} policy "
            f"{tag.policy!r} from aggregate {tag.aggregate_id} ({tag.aggregate_name})."
        )


def _find_fault(policy: str, policies: Policies) -> str | None:
    try:
        policies.get(policy)
    except ConfigurationError as wrong:
        return wrong.detail
    return None


def find_faults(aggregates: Sequence[HostAggregate], policies: Policies) -> Iterator[str]:
    """Yield messages about unknown policies and hosts with several policies."""
    members: dict[str, list[HostAggregate]] = defaultdict(list)
    for item in aggregates:
        if item.policy and (fault := _find_fault(item.policy, policies)):
            yield f"aggregate {item.id} ({item.name}) names policy {item.policy!r}: {fault}"
        for host in item.hosts if item.policy else ():
            members[host].append(item)
    hosts_by_policies: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for host, items in members.items():
        if len({item.policy for item in items}) > 1:
            hosts_by_policies[tuple(item.id for item in items)].append(host)
    for _, hosts in sorted(hosts_by_policies.items()):
        sources = ", ".join(
            f"{item.policy!r} from aggregate {item.id} ({item.name})" for item in members[hosts[0]]
        )
        yield f"{_format_hosts(hosts)} several policies: {sources}"


def _format_hosts(hosts: Sequence[str]) -> str:
    return (
        f"host {hosts[0]} has" if len(hosts) == 1 else f"hosts {shorten_names(sorted(hosts))} have"
    )


def with_policy_ratios(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies | None
) -> Sequence[ComputeNode]:
    """Return the nodes with the allocation ratios of their hosts' policies.

    Locks aggregates until the transaction ends. The caller must not have locked providers before,
    because a change of an aggregate locks the aggregate first, then its providers.
    """
    if policies is None or not nodes or not policies.names:
        return nodes
    change_counters.hold_version(connection, host_aggregates.SUBJECT)
    return _with_policies(connection, nodes, policies)


def update_ratios(
    connection: Connection, hosts: Collection[str], policies: Policies | None, now: datetime
) -> frozenset[int]:
    """Update allocation ratios of hosts, and return changed provider ids.

    The caller has incremented or locked the change counter of aggregates. Only existing inventories
    get a ratio. The capacity may become less than the used amount, as in placement. If ``policies``
    is None, nothing changes.
    """
    if policies is None:
        return frozenset()
    ids = host_aggregates.find_provider_ids(connection, hosts)
    # Lock before reading the nodes: a report also locks providers before it writes its ratios.
    locked = resource_providers.lock(connection, ids)
    if not locked:
        return frozenset()
    nodes = [
        node
        for batch in split_batches(sorted(hosts))
        for node in compute_nodes.list_by_names(connection, hosts=batch, nodes=())
    ]
    providers = resource_providers.map_by_uuid(connection, [node.uuid for node in nodes])
    ratios = {
        provider.id: {name: getattr(node, ratio) for name, ratio in RATIOS.items()}
        for node in _with_policies(connection, nodes, policies)
        if (provider := providers.get(node.uuid)) is not None and provider.id in locked
    }
    changed = inventories.set_ratios(connection, ratios, now)
    resource_providers.bump_generations(connection, changed, now)
    return changed


def apply(
    database: Database,
    policies: Policies,
    clock: Clock,
    progress: Progress = lambda _done, _all: None,
) -> tuple[int, int]:
    """Apply the ratios of policies to all hosts with a policy, in batches.

    Returns the number of these hosts and the number of changed providers. After an interruption, a
    repeated call does not write finished batches again.
    """

    def update_batch(connection: Connection, hosts: Sequence[str]) -> frozenset[int]:
        change_counters.hold_version(connection, host_aggregates.SUBJECT)
        return update_ratios(connection, hosts, policies, clock())

    with database.read() as connection:
        hosts = host_aggregates.list_tagged_hosts(connection)
    done = changed = 0
    for batch in split_batches(hosts, BATCH_SIZE):
        changed += len(database.write(partial(update_batch, hosts=batch)))
        done += len(batch)
        progress(done, len(hosts))
    return len(hosts), changed


def _with_policies(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies
) -> list[ComputeNode]:
    tags = host_aggregates.map_tags(connection, {node.host for node in nodes})
    ratios = {
        host: find_ratios((tag.policy for tag in host_tags), policies)
        for host, host_tags in tags.items()
    }
    return [with_ratios(node, ratios.get(node.host, NO_RATIOS)) for node in nodes]


def with_ratios(node: ComputeNode, ratios: Mapping[str, Any]) -> ComputeNode:
    """Return a node with ``ratios``, a mapping of field names to values."""
    return replace(node, **ratios) if ratios else node


class RatioUpdater(PeriodicTask):
    """Periodic task that applies the ratios of policies to inventories.

    It applies the ratios at the start, when settings change, and after a failover of the database,
    because the latest writes may be lost. Otherwise a call only compares two values. The first call
    blocks, and raises :class:`Unavailable` if the database is unavailable. Later updates run in a
    thread. If an update fails, the next request starts it again.
    """

    thread_name = "policy ratios"
    failure = "allocation ratios of policies were not updated, which will be retried"
    pause = 0.0

    def __init__(self, database: Database, settings: Callable[[], Settings], clock: Clock) -> None:
        super().__init__()
        self._database, self._settings, self._clock = database, settings, clock
        self._done: Settings | None = None
        self._epoch: ServerEpoch = None

    def __call__(self) -> None:
        """Apply the ratios of the current settings if they are outdated."""
        if self._done is not None:
            super().__call__()
        elif self._turn.acquire(blocking=False):
            try:
                self.run_round()
            finally:
                self._turn.release()

    def is_due(self) -> bool:
        """Return whether settings or database have changed since the last round."""
        return self._settings() is not self._done or self._database.epoch != self._epoch

    def run_round(self) -> None:
        """Apply the ratios, and log unknown and conflicting policies."""
        settings = self._settings()
        policies = get_policies(settings, self._clock)
        with self._database.read() as connection:
            epoch = get_epoch(connection)
            aggregates = host_aggregates.read_snapshot(connection) if policies.can_exist else ()
        # A host without a usable policy uses the default policy.
        for fault in find_faults(aggregates, policies):
            LOG.warning("%s", fault)
        hosts, changed = apply(self._database, policies, self._clock)
        self._done, self._epoch = settings, epoch
        if changed:
            LOG.info(
                "allocation ratios of policies: the inventories of %s were updated. Hosts in "
                "aggregates with a policy: %d",
                format_count(changed, "provider"),
                hosts,
            )


def get(connection: Connection, aggregate_id: int) -> HostAggregate:
    """Return an aggregate, or raise :class:`NotFound`."""
    aggregate = host_aggregates.find_by_id(connection, aggregate_id)
    if aggregate is None:
        raise NotFound(f"Aggregate {aggregate_id} could not be found.")
    return aggregate


def _lock_aggregate(connection: Connection, aggregate_id: int) -> HostAggregate:
    change_counters.bump(connection, host_aggregates.SUBJECT)
    return get(connection, aggregate_id)


def create(
    connection: Connection, uuid: str, name: str, zone: str | None, now: datetime
) -> HostAggregate:
    """Create an aggregate, or raise :class:`Duplicate` if its name is in use."""
    change_counters.bump(connection, host_aggregates.SUBJECT)
    _check_name_is_free(connection, name)
    number = host_aggregates.add(connection, uuid, name, now)
    if zone is not None:
        host_aggregates.change_metadata(connection, number, {ZONE_KEY: zone}, now)
    return get(connection, number)


def update(
    connection: Connection, aggregate_id: int, fields: Mapping[str, str | None], now: datetime
) -> HostAggregate:
    """Change the name or the availability zone of an aggregate.

    Raises :class:`NotFound`, :class:`Duplicate` if the name is in use, and :class:`Invalid` for a
    zone that is not allowed.
    """
    aggregate = _lock_aggregate(connection, aggregate_id)
    name = fields.get("name")
    if name is not None and name != aggregate.name:
        _check_name_is_free(connection, name)
        host_aggregates.change(connection, aggregate_id, name=name)
    if ZONE_KEY in fields:
        _check_zone(connection, aggregate, fields[ZONE_KEY])
        host_aggregates.change_metadata(connection, aggregate_id, {ZONE_KEY: fields[ZONE_KEY]}, now)
    host_aggregates.change(connection, aggregate_id, updated_at=now)
    return get(connection, aggregate_id)


def set_metadata(
    connection: Connection,
    aggregate_id: int,
    changes: Mapping[str, str | None],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Set metadata keys of an aggregate, and remove keys with value None.

    Raises :class:`NotFound`, :class:`Invalid` for a zone that is not allowed, and :class:`Conflict`
    if the policy is unknown or a host has another policy.
    """
    aggregate = _lock_aggregate(connection, aggregate_id)
    if ZONE_KEY in changes:
        _check_zone(connection, aggregate, changes[ZONE_KEY])
    if (policy := changes.get(POLICY_KEY)) is not None:
        policy, prefix = parse_policy_name(policy), "Cannot update aggregate"
        _check_policy(connection, aggregate, policy, aggregate.hosts, policies, prefix)
    host_aggregates.change_metadata(connection, aggregate_id, changes, now)
    if POLICY_KEY in changes:
        update_ratios(connection, aggregate.hosts, policies, now)
    host_aggregates.change(connection, aggregate_id, updated_at=now)
    return get(connection, aggregate_id)


def add_hosts(
    connection: Connection,
    aggregate_id: int,
    hosts: Collection[str],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Add hosts and the providers of their compute nodes to an aggregate.

    Raises :class:`NotFound`, and :class:`Conflict` if a host is already a member, is in another
    zone, has another policy, or would change zone while it has instances.
    """
    change_counters.bump(connection, host_aggregates.SUBJECT)
    if unknown := sorted(set(hosts) - host_aggregates.find_compute_hosts(connection, hosts)):
        raise NotFound(f"Compute host {', '.join(unknown)} could not be found.")
    aggregate = get(connection, aggregate_id)
    if present := sorted(aggregate.hosts.intersection(hosts)):
        raise Conflict(f"Aggregate {aggregate_id} already has host {', '.join(present)}.")
    if aggregate.availability_zone is not None:
        _check_zone_of_added(connection, aggregate, hosts)
    if aggregate.policy is not None:
        prefix = "Cannot add host to aggregate"
        _check_policy(connection, aggregate, aggregate.policy, hosts, policies, prefix)
    host_aggregates.add_hosts(connection, aggregate_id, hosts, now)
    providers = host_aggregates.find_provider_ids(connection, hosts)
    provider_aggregates.add_members(connection, aggregate.uuid, providers, now)
    if aggregate.policy is not None:
        update_ratios(connection, hosts, policies, now)
    return get(connection, aggregate_id)


def remove_host(
    connection: Connection,
    aggregate_id: int,
    host: str,
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Remove a host and its providers from an aggregate.

    Raises :class:`NotFound` if the host is not a member, and :class:`Conflict` if it has instances
    and would change its availability zone.
    """
    change_counters.bump(connection, host_aggregates.SUBJECT)
    aggregate = host_aggregates.find_by_id(connection, aggregate_id)
    if aggregate is None or host not in aggregate.hosts:
        raise NotFound(f"Cannot remove host {host}: it is not in aggregate {aggregate_id}.")
    zones = host_aggregates.map_zones(connection, [host]).get(host, {})
    # If another aggregate has the zone, too, the host stays in it.
    leaves_zone = aggregate.availability_zone is not None and not zones.keys() - {aggregate_id}
    if leaves_zone and host_aggregates.find_hosts_with_instances(connection, [host]):
        raise Conflict(
            f"Cannot remove host from aggregate {aggregate.id}: {host} has instances and would "
            f"leave availability zone {aggregate.availability_zone}. Move the instances first."
        )
    host_aggregates.remove_host(connection, aggregate_id, host)
    providers = host_aggregates.find_provider_ids(connection, [host])
    provider_aggregates.remove_members(connection, aggregate.uuid, providers, now)
    if aggregate.policy is not None:
        update_ratios(connection, [host], policies, now)
    return get(connection, aggregate_id)


def delete(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate, or raise NotFound, or Invalid if it has hosts."""
    aggregate = _lock_aggregate(connection, aggregate_id)
    if aggregate.hosts:
        problem = f"host aggregate is not empty, it has {len(aggregate.hosts)} host(s)"
        raise Invalid(f"Cannot delete aggregate {aggregate_id}: {problem}.")
    host_aggregates.remove(connection, aggregate_id)


def _check_name_is_free(connection: Connection, name: str) -> None:
    if host_aggregates.find_id(connection, name) is not None:
        raise Duplicate(f"Aggregate {name} already exists.")


def _check_zone(connection: Connection, aggregate: HostAggregate, zone: str | None) -> None:
    prefix = f"Cannot update aggregate {aggregate.id}"
    if not zone:
        raise Invalid(f"{prefix}: {aggregate.name} cannot have an empty named availability zone.")
    if other_zones := {
        name
        for zone_names in host_aggregates.map_zones(connection, aggregate.hosts).values()
        for number, name in zone_names.items()
        if number != aggregate.id and name != zone
    }:
        problem = "one or more hosts already in availability zone(s)"
        raise Invalid(f"{prefix}: {problem} {shorten_names(sorted(other_zones))}.")
    if zone == aggregate.availability_zone:
        return
    if busy := host_aggregates.find_hosts_with_instances(connection, aggregate.hosts):
        problem = "one or more hosts contain instances in this zone"
        raise Invalid(f"{prefix}: {problem}: {shorten_names(sorted(busy))}.")


def _check_zone_of_added(
    connection: Connection, aggregate: HostAggregate, hosts: Collection[str]
) -> None:
    prefix = f"Cannot add host to aggregate {aggregate.id}"
    zones = host_aggregates.map_zones(connection, hosts)
    zone = aggregate.availability_zone
    if other_zones := {name for names in zones.values() for name in names.values()} - {zone}:
        hosts_elsewhere = [
            host for host, names in zones.items() if other_zones.intersection(names.values())
        ]
        problem = "one or more hosts already in availability zone(s)"
        raise Conflict(
            f"{prefix}: {problem} {shorten_names(sorted(other_zones))}: "
            f"{shorten_names(sorted(hosts_elsewhere))}."
        )
    if busy := host_aggregates.find_hosts_with_instances(connection, set(hosts) - set(zones)):
        raise Conflict(
            f"{prefix}: hosts with instances would change to availability zone {zone}: "
            f"{shorten_names(sorted(busy))}. Move the instances first."
        )


class Zone(NamedTuple):
    """An availability zone, which is available if it has an enabled service.

    ``services`` are the enabled services of the zone, up or down, sorted by host and binary. The
    ``internal`` zone has no instances.
    """

    name: str
    internal: bool
    services: tuple[Service, ...]

    @property
    def is_available(self) -> bool:
        """Return whether users may select the zone."""
        return bool(self.services)


def list_zones(connection: Connection, settings: Settings) -> tuple[Zone, ...]:
    """Return all zones, sorted by availability and name, in two statements.

    Available zones come first. A host without an aggregate that names a zone is in the default
    zone. Services other than ``nova-compute`` are in the internal zone, which users do not see.
    """
    all_services = services.search(connection)
    zones = map_zones_by_service(connection, all_services, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    enabled: dict[str, list[Service]] = {name: [] for name in zones.values()}
    for service in sorted(all_services, key=lambda service: (service.host, service.binary)):
        if not service.disabled:
            enabled[zones[service.id]].append(service)
    all_zones = (Zone(name, name == internal, tuple(up)) for name, up in enabled.items())
    return tuple(sorted(all_zones, key=lambda zone: (not zone.is_available, zone.name)))


def map_zones_by_service(
    connection: Connection, members: Collection[Service], settings: Settings
) -> dict[int, str]:
    """Map service ids to zones, in a single statement.

    A compute service has the zone of its host. Any other service has the zone ``[DEFAULT]
    internal_service_availability_zone``.
    """
    hosts = {service.host for service in members if service.is_compute}
    zones = map_zones_by_host(connection, hosts, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    return {
        service.id: zones[service.host] if service.is_compute else internal for service in members
    }


def map_zones_by_host(
    connection: Connection, hosts: set[str], settings: Settings
) -> dict[str, str]:
    """Map hosts to zones, joined by commas, or to the default zone."""
    zones = host_aggregates.map_zones(connection, hosts)
    default = settings.DEFAULT.default_availability_zone
    return {
        host: ",".join(sorted(set(zones[host].values()))) if host in zones else default
        for host in hosts
    }
