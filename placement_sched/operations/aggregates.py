"""What may be done with host aggregates, and what it does to provider aggregates.

Each function works within the caller's transaction and bumps the aggregates' change counter
first: that row's lock makes writers take turns, so two of them cannot both find a rule kept that
they break together. The rules are nova's (compute API reference, "Host aggregates"): a host is in
at most one availability zone, and no zone changes under instances. And a host is under at most one
policy (nova blueprint multiple-scheduler-drivers), whose ratios its inventories have; without
``policies`` it is not asked whether there is such a policy, and no ratio changes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from threading import Lock, Thread
from typing import Any

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.failover import History, history_of
from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConfigurationError, Conflict, Duplicate, Error, Invalid, NotFound
from placement_sched.limits import MAX_AGGREGATE_HOSTS, MAX_AGGREGATE_METADATA
from placement_sched.model.aggregates import POLICY_KEY, ZONE_KEY, HostAggregate, Tag, policy_name
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import RATIOS, ComputeNode, Service
from placement_sched.model.names import in_short
from placement_sched.operations import Progress
from placement_sched.scheduler.caches import AggregateCache
from placement_sched.scheduler.policies.registry import (
    NO_RATIOS,
    Policies,
    policies_for,
    ratios_under,
)
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, services
from placement_sched.store.compute import host_aggregates as store
from placement_sched.store.placement import aggregates as provider_aggregates
from placement_sched.store.placement import inventories, resource_providers

LOG = log.getLogger(__name__)

#: How many hosts are written in one transaction: others wait for its locks.
BATCH = 500


def policies_in_use(settings: Settings) -> frozenset[str]:
    """Return the policies that aggregates name; none if the database does not answer."""
    database = Database(settings)
    try:
        return AggregateCache().policies_in_use(database)
    finally:
        database.dispose()


def check(
    connection: Connection,
    aggregate: HostAggregate,
    policy: str,
    hosts: Collection[str],
    policies: Policies | None,
    error_prefix: str,
) -> None:
    """Raise :class:`Conflict`, ``refused`` first, unless hosts may be under this policy."""
    about = f"{error_prefix} {aggregate.id}: {aggregate.name}"
    if policies is not None:
        try:
            policies.get(policy)
        except ConfigurationError as wrong:
            problem = f"{about} cannot use policy {policy!r}: {wrong.detail}."
            raise Conflict(problem) from None
    conflicting: dict[Tag, list[str]] = defaultdict(list)
    for host, tags in sorted(host_aggregates.tags_of_hosts(connection, hosts).items()):
        for tag in tags:
            if tag.aggregate_id != aggregate.id and tag.policy != policy:
                conflicting[tag].append(host)
    if conflicting:
        tag, theirs = next(iter(conflicting.items()))
        raise Conflict(
            f"{about} names policy {policy!r}, but {_counted(theirs)} policy "
            f"{tag.policy!r} from aggregate {tag.aggregate_id} ({tag.aggregate_name})."
        )


def faults(aggregates: Sequence[HostAggregate], policies: Policies) -> Iterator[str]:
    """Yield what is wrong with the policies of these aggregates: unknown ones, hosts under two."""
    for item in aggregates:
        if item.policy is not None:
            try:
                policies.get(item.policy)
            except ConfigurationError as wrong:
                problem = f"aggregate {item.id} ({item.name}) names policy {item.policy!r}"
                yield f"{problem}: {wrong.detail}"
    tagged = {item.id: item for item in aggregates if item.policy}
    by_host: dict[str, list[int]] = defaultdict(list)
    for number, item in tagged.items():
        for host in item.hosts:
            by_host[host].append(number)
    alike: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for host, numbers in by_host.items():
        if len({tagged[number].policy for number in numbers}) > 1:
            alike[tuple(numbers)].append(host)
    for together, hosts in sorted(alike.items()):
        members = [tagged[number] for number in together]
        named = ", ".join(
            f"{item.policy!r} from aggregate {item.id} ({item.name})" for item in members
        )
        yield f"{_counted(hosts)} several policies: {named}"


def _counted(hosts: Sequence[str]) -> str:
    return f"host {hosts[0]} has" if len(hosts) == 1 else f"hosts {in_short(sorted(hosts))} have"


def under(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies | None
) -> Sequence[ComputeNode]:
    """Return the nodes with the ratios of their hosts' policies in place of their own.

    No aggregate changes until the transaction ends; the caller must not have locked the providers
    yet, which a change of an aggregate locks after this.
    """
    if policies is None or not nodes or not policies.names:
        return nodes
    change_counters.hold(connection, host_aggregates.SUBJECT)
    return _with_policies(connection, nodes, policies)


def settle(
    connection: Connection, hosts: Collection[str], policies: Policies | None, now: datetime
) -> frozenset[int]:
    """Give what the hosts' providers have the ratios that hold now; return those that changed.

    The caller has bumped or holds the aggregates' change counter. Only ratios are written, and
    only into inventories that are there; a ratio may leave less than is allocated, as placement
    lets everybody lower one. Without policies nothing is done.
    """
    if policies is None:
        return frozenset()
    ids = host_aggregates.provider_ids_of_hosts(connection, hosts)
    # Before the nodes are read: a report locks them, too, before it writes its own ratios.
    locked = resource_providers.lock(connection, ids)
    if not locked:
        return frozenset()
    nodes = [
        node
        for batch in batches(sorted(hosts))
        for node in compute_nodes.named(connection, hosts=batch, nodes=())
    ]
    providers = resource_providers.by_uuids(connection, [node.uuid for node in nodes])
    wanted = {
        provider.id: {name: getattr(node, ratio) for name, ratio in RATIOS.items()}
        for node in _with_policies(connection, nodes, policies)
        if (provider := providers.get(node.uuid)) is not None and provider.id in locked
    }
    changed = inventories.set_ratios(connection, wanted, now)
    resource_providers.bump_generations(connection, changed, now)
    return changed


def apply(
    database: Database,
    policies: Policies,
    clock: Clock,
    progress: Progress = lambda _done, _all: None,
) -> tuple[int, int]:
    """Bring the hosts of all aggregates with a policy to its ratios, batch by batch.

    Returns how many hosts there are, and the inventories of how many providers changed. Stopped, it
    starts again: what is done stays, and is not written again.
    """

    def settle_batch(connection: Connection, hosts: Sequence[str]) -> frozenset[int]:
        change_counters.hold(connection, host_aggregates.SUBJECT)
        return settle(connection, hosts, policies, clock())

    with database.read() as connection:
        hosts = host_aggregates.tagged_hosts(connection)
    done = changed = 0
    for batch in batches(hosts, BATCH):
        changed += len(database.write(partial(settle_batch, hosts=batch)))
        done += len(batch)
        progress(done, len(hosts))
    return len(hosts), changed


def _with_policies(
    connection: Connection, nodes: Sequence[ComputeNode], policies: Policies
) -> list[ComputeNode]:
    tags = host_aggregates.tags_of_hosts(connection, {node.host for node in nodes})
    ratios = {host: ratios_under((tag.policy for tag in of), policies) for host, of in tags.items()}
    return [with_ratios(node, ratios.get(node.host, NO_RATIOS)) for node in nodes]


def with_ratios(node: ComputeNode, ratios: Mapping[str, Any]) -> ComputeNode:
    """Return a node with these ratios, by name, in place of its own."""
    return replace(node, **ratios) if ratios else node


class PolicyUpkeep:
    """Brings inventories to the ratios of policies at the start, and whenever settings change.

    And where another server of the database has taken over, which may lack what was written last.
    Called before every request, it costs one look at the settings. What is to be done at the start
    is done before the call returns, and raises :class:`Unavailable` where the database does not
    answer. Later it is done beside the requests; where it fails, the next request tries again.
    """

    def __init__(self, database: Database, settings: Callable[[], Settings], clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._turn = Lock()
        self._done: Settings | None = None
        self._history: History = None

    def __call__(self) -> None:
        """See to it that inventories have the ratios of the settings in effect now."""
        settings = self._settings()
        done = settings is self._done and self._database.history == self._history
        if done or not self._turn.acquire(blocking=False):
            return
        if self._done is None:
            self._apply(settings)
        else:
            Thread(target=self._again, args=(settings,), name="policy ratios", daemon=True).start()

    def _again(self, settings: Settings) -> None:
        try:
            self._apply(settings)
        except Error as failure:
            LOG.warning("allocation ratios of policies: %s; will be retried", failure.detail)

    def _apply(self, settings: Settings) -> None:
        try:
            policies = policies_for(settings, self._clock)
            with self._database.read() as connection:
                history = history_of(connection)
                aggregates = host_aggregates.snapshot(connection) if policies.imaginable else ()
            # Their hosts are under the default policy.
            for fault in faults(aggregates, policies):
                LOG.warning("%s", fault)
            hosts, changed = apply(self._database, policies, self._clock)
            self._done, self._history = settings, history
        finally:
            self._turn.release()
        if changed:
            LOG.info(
                "allocation ratios of policies: the inventories of %d providers were updated; "
                "%d hosts are in aggregates with a policy",
                changed,
                hosts,
            )


def get(connection: Connection, aggregate_id: int) -> HostAggregate:
    """Return an aggregate; raises :class:`NotFound`."""
    aggregate = store.by_id(connection, aggregate_id)
    if aggregate is None:
        raise NotFound(f"Aggregate {aggregate_id} could not be found.")
    return aggregate


def _locked(connection: Connection, aggregate_id: int) -> HostAggregate:
    change_counters.bump(connection, store.SUBJECT)
    return get(connection, aggregate_id)


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
    """Change the name or the zone of an aggregate, or both; raises as :func:`set_metadata`."""
    aggregate = _locked(connection, aggregate_id)
    name = fields.get("name")
    if name is not None and name != aggregate.name:
        _check_name_is_free(connection, name)
        store.change(connection, aggregate_id, name=name)
    if ZONE_KEY in fields:
        _check_zone(connection, aggregate, fields[ZONE_KEY])
        store.change_metadata(connection, aggregate_id, {ZONE_KEY: fields[ZONE_KEY]}, now)
    store.change(connection, aggregate_id, updated_at=now)
    return get(connection, aggregate_id)


def set_metadata(
    connection: Connection,
    aggregate_id: int,
    changes: Mapping[str, str | None],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Set metadata keys of an aggregate; None removes a key, keys not named stay.

    Raises :class:`NotFound`, :class:`Invalid` for a zone that cannot be and for too many keys, and
    :class:`Conflict` for a policy that is not there or is not that of another aggregate of its
    hosts.
    """
    aggregate = _locked(connection, aggregate_id)
    _check_number(aggregate, changes)
    if ZONE_KEY in changes:
        _check_zone(connection, aggregate, changes[ZONE_KEY])
    if (policy := changes.get(POLICY_KEY)) is not None:
        policy, refused = policy_name(policy), "Cannot update aggregate"
        check(connection, aggregate, policy, aggregate.hosts, policies, refused)
    store.change_metadata(connection, aggregate_id, changes, now)
    if POLICY_KEY in changes:
        settle(connection, aggregate.hosts, policies, now)
    store.change(connection, aggregate_id, updated_at=now)
    return get(connection, aggregate_id)


def add_hosts(
    connection: Connection,
    aggregate_id: int,
    hosts: Collection[str],
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Put hosts, and the providers of their compute nodes, into an aggregate: all or none.

    Raises :class:`NotFound`, :class:`Conflict` where a host is in it already, is in another
    zone or under another policy, or would change zone under its instances, and :class:`Invalid`
    for too many.
    """
    change_counters.bump(connection, store.SUBJECT)
    if unknown := sorted(set(hosts) - store.known_hosts(connection, hosts)):
        raise NotFound(f"Compute host {', '.join(unknown)} could not be found.")
    aggregate = get(connection, aggregate_id)
    if present := sorted(aggregate.hosts.intersection(hosts)):
        raise Conflict(f"Aggregate {aggregate_id} already has host {', '.join(present)}.")
    if (has := len(aggregate.hosts.union(hosts))) > MAX_AGGREGATE_HOSTS:
        raise Invalid(
            f"Cannot add host to aggregate {aggregate_id}: it would have {has} hosts, at most "
            f"{MAX_AGGREGATE_HOSTS} allowed."
        )
    if aggregate.availability_zone is not None:
        _check_zone_of_added(connection, aggregate, hosts)
    if aggregate.policy is not None:
        refused = "Cannot add host to aggregate"
        check(connection, aggregate, aggregate.policy, hosts, policies, refused)
    store.add_hosts(connection, aggregate_id, hosts, now)
    providers = store.provider_ids_of_hosts(connection, hosts)
    provider_aggregates.add_members(connection, aggregate.uuid, providers, now)
    if aggregate.policy is not None:
        settle(connection, hosts, policies, now)
    return get(connection, aggregate_id)


def remove_host(
    connection: Connection,
    aggregate_id: int,
    host: str,
    now: datetime,
    policies: Policies | None = None,
) -> HostAggregate:
    """Take a host and its nodes' providers out of an aggregate; raises as :func:`add_hosts`."""
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
        settle(connection, [host], policies, now)
    return get(connection, aggregate_id)


def delete(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate; raises :class:`NotFound`, and :class:`Invalid` while it has hosts."""
    aggregate = _locked(connection, aggregate_id)
    if aggregate.hosts:
        problem = f"host aggregate is not empty, it has {len(aggregate.hosts)} host(s)"
        raise Invalid(f"Cannot delete aggregate {aggregate_id}: {problem}.")
    store.remove(connection, aggregate_id)


def _check_number(aggregate: HostAggregate, changes: Mapping[str, str | None]) -> None:
    changed = {**aggregate.metadata, **changes}
    number = sum(value is not None for value in changed.values())
    # An aggregate from before there was a limit may have more, which may become fewer.
    if number > max(MAX_AGGREGATE_METADATA, len(aggregate.metadata)):
        raise Invalid(
            f"Cannot update aggregate {aggregate.id}: it would have {number} metadata keys, at "
            f"most {MAX_AGGREGATE_METADATA} allowed."
        )


def _check_name_is_free(connection: Connection, name: str) -> None:
    if store.id_of_name(connection, name) is not None:
        raise Duplicate(f"Aggregate {name} already exists.")


def _check_zone(connection: Connection, aggregate: HostAggregate, zone: str | None) -> None:
    prefix = f"Cannot update aggregate {aggregate.id}"
    if not zone:
        raise Invalid(f"{prefix}: {aggregate.name} cannot have an empty named availability zone.")
    if other_zones := {
        name
        for named in store.zones_of_hosts(connection, aggregate.hosts).values()
        for number, name in named.items()
        if number != aggregate.id and name != zone
    }:
        problem = "one or more hosts already in availability zone(s)"
        raise Invalid(f"{prefix}: {problem} {in_short(sorted(other_zones))}.")
    if zone == aggregate.availability_zone:
        return
    if busy := store.hosts_with_instances(connection, aggregate.hosts):
        problem = "one or more hosts contain instances in this zone"
        raise Invalid(f"{prefix}: {problem}: {in_short(sorted(busy))}.")


def _check_zone_of_added(
    connection: Connection, aggregate: HostAggregate, hosts: Collection[str]
) -> None:
    prefix = f"Cannot add host to aggregate {aggregate.id}"
    zones = store.zones_of_hosts(connection, hosts)
    mine = aggregate.availability_zone
    if other_zones := {name for named in zones.values() for name in named.values()} - {mine}:
        there = [host for host, named in zones.items() if other_zones.intersection(named.values())]
        problem = "one or more hosts already in availability zone(s)"
        raise Conflict(
            f"{prefix}: {problem} {in_short(sorted(other_zones))}: {in_short(sorted(there))}."
        )
    if busy := store.hosts_with_instances(connection, set(hosts) - set(zones)):
        raise Conflict(
            f"{prefix}: hosts with instances would change to availability zone {mine}: "
            f"{in_short(sorted(busy))}; move the instances first."
        )


def _check_zone_of_removed(connection: Connection, aggregate: HostAggregate, host: str) -> None:
    zones = store.zones_of_hosts(connection, [host]).get(host, {})
    if any(number != aggregate.id for number in zones):
        return  # another aggregate keeps it in the zone: a host is never in two of them
    if store.hosts_with_instances(connection, [host]):
        raise Conflict(
            f"Cannot remove host from aggregate {aggregate.id}: {host} has instances and would "
            f"leave availability zone {aggregate.availability_zone}; move the instances first."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone; it is available where any of its services is enabled, whether up or not.

    ``services`` are the enabled ones by host, then binary; an ``internal`` zone has no instances.
    """

    name: str
    internal: bool
    services: tuple[Service, ...]

    @property
    def is_available(self) -> bool:
        """Return whether instances may be asked for there."""
        return bool(self.services)


def zones(connection: Connection, settings: Settings) -> tuple[Zone, ...]:
    """Return all zones, the available ones first, each kind by name; in two statements.

    A zone exists while a host is in it: by an aggregate that is a zone, else by default. Services
    other than ``nova-compute`` are in a zone of their own, which users do not see.
    """
    all_services = services.search(connection)
    named = zones_of_services(connection, all_services, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    enabled: dict[str, list[Service]] = {name: [] for name in named.values()}
    for service in sorted(all_services, key=lambda service: (service.host, service.binary)):
        if not service.disabled:
            enabled[named[service.id]].append(service)
    found_zones = (
        Zone(name=name, internal=name == internal, services=tuple(up))
        for name, up in enabled.items()
    )
    return tuple(sorted(found_zones, key=lambda zone: (not zone.is_available, zone.name)))


def zones_of_services(
    connection: Connection, found: Collection[Service], settings: Settings
) -> dict[int, str]:
    """Return the zones of services, by the number of the service; in one statement.

    That of a compute service is its host's; that of any other is ``[DEFAULT]
    internal_service_availability_zone``.
    """
    hosts = {service.host for service in found if service.is_compute}
    named = zones_of_hosts(connection, hosts, settings)
    internal = settings.DEFAULT.internal_service_availability_zone
    return {
        service.id: named[service.host] if service.is_compute else internal for service in found
    }


def zones_of_hosts(connection: Connection, hosts: set[str], settings: Settings) -> dict[str, str]:
    """Return each host's zone, the default one of the rest; of several all, joined by commas."""
    named = store.zones_of_hosts(connection, hosts)
    default = settings.DEFAULT.default_availability_zone
    return {
        host: ",".join(sorted(set(named[host].values()))) if host in named else default
        for host in hosts
    }
