# SPDX-License-Identifier: Apache-2.0
"""Audit and repair of allocations.

The audit finds orphaned allocations by the rules of ``nova-manage placement audit`` (nova's
documentation), and optionally deletes them. A consumer that may be an instance without a record in
this database is only reported. Healing creates missing allocations of recorded instances.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from placement_sched.db import migrate
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Conflict, Invalid, NotFound
from placement_sched.model.clock import Clock
from placement_sched.model.document import Document
from placement_sched.model.flavor import Flavor
from placement_sched.model.grouping import group_rows, nest_rows, split_batches
from placement_sched.model.instance import Instance
from placement_sched.model.provider import (
    INSTANCE_TYPE,
    SHARES,
    UNCHECKED,
    Allocation,
    ConsumerClaim,
)
from placement_sched.model.retry import call_with_retries
from placement_sched.operations.aggregates import find_faults
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.scheduler.request_groups import compute_flavor_amounts
from placement_sched.store.checks import find_allocated_elsewhere, list_orphans
from placement_sched.store.compute import compute_nodes, host_aggregates, instances, services
from placement_sched.store.placement import allocations, resource_providers, traits

#: Maximum number of consumers per transaction. Other writers wait for the transaction's locks.
_BATCH = 500
#: Number of instances that are read at a time.
BATCH = 50


class UnverifiedReason(Enum):
    """The reason why a consumer without a record may still be an instance."""

    ADOPTED = "adopted_database"
    NOTHING_RECORDED = "no_instance_recorded"
    NO_TYPE = "no_consumer_type"
    NOT_REPORTED = "provider_not_reported"
    MORE_REPORTED = "host_reports_more"


@dataclass(frozen=True, slots=True)
class UnverifiedConsumer:
    """A consumer that may be an instance, with the reason why.

    ``about`` are the hosts of its allocations, or names of providers without a host. ``has_type``
    is true if the consumer has the consumer type INSTANCE, which this service always sets.
    """

    consumer: str
    reason: UnverifiedReason
    about: tuple[str, ...]
    has_type: bool = True


def _group_by_consumer(rows: Iterable[Allocation]) -> dict[str, list[Allocation]]:
    return group_rows(
        (row.consumer.uuid, row) for row in sorted(rows, key=lambda r: r.consumer.uuid)
    )


def _map_amounts_by_provider(rows: Iterable[Allocation]) -> dict[str, dict[str, int]]:
    return dict(nest_rows((row.provider_uuid, row.resource_class, row.used) for row in rows))


def can_records_be_outdated(database: Database) -> bool:
    """Return whether instances that nova has deleted may still be recorded.

    In a database that OpenStack placement created, nova deletes the allocations of an instance, but
    not its record in this service.
    """
    with database.read() as connection:
        return migrate.is_recorded(connection)


class _InstanceRecords:
    """Recorded instances, as evidence that a consumer is not an instance.

    The records are incomplete in a database that OpenStack placement created, in a database without
    any record, on a host that reports more instances than are recorded, and on a provider of a host
    without reports. With ``all_recorded`` they are complete. A consumer without a type was created
    by nova, for an instance or a migration. The number of SQL statements depends only on the number
    of batches.
    """

    def __init__(
        self, connection: Connection, rows: Sequence[Allocation], *, all_recorded: bool
    ) -> None:
        self._all_recorded = all_recorded
        #: Reason why all consumers of the database may be instances, or None.
        self._common_reason: UnverifiedReason | None = None
        if not all_recorded and migrate.is_recorded(connection):
            self._common_reason = UnverifiedReason.ADOPTED
        elif not all_recorded and not instances.is_any(connection):
            self._common_reason = UnverifiedReason.NOTHING_RECORDED
        uuids = {row.provider_uuid for row in rows}
        providers = resource_providers.map_by_uuid(connection, uuids)
        roots = {provider.root_uuid for provider in providers.values()}
        nodes = {node.uuid: node for node in compute_nodes.list_by_uuids(connection, roots)}
        self._nodes = {
            uuid: nodes[provider.root_uuid]
            for uuid, provider in providers.items()
            if provider.root_uuid in nodes
        }
        #: The host of each provider, or the provider's name if it has no host.
        self._names = {uuid: provider.name for uuid, provider in providers.items()}
        self._names |= {uuid: node.host for uuid, node in self._nodes.items()}
        self._sharing = traits.map_providers(connection, [SHARES]).get(SHARES, frozenset())
        hosts = {node.host for node in nodes.values()}
        self._recorded = instances.count_by_host(connection, hosts)

    def verify(self, consumer: str, rows: Sequence[Allocation]) -> UnverifiedConsumer | None:
        """Return why a consumer may still be an instance, or None if certain."""
        about = {row.provider_uuid for row in rows}
        has_type = rows[0].consumer.consumer_type == INSTANCE_TYPE
        reason = self._common_reason
        if reason is None and not has_type:
            reason = UnverifiedReason.NO_TYPE
        elif reason is None and not self._all_recorded:
            reason, about = self._find_incomplete(about)
        if reason is None:
            return None
        names = {self._names.get(uuid, uuid) for uuid in about}
        return UnverifiedConsumer(consumer, reason, tuple(sorted(names)), has_type)

    def _find_incomplete(self, uuids: set[str]) -> tuple[UnverifiedReason | None, set[str]]:
        if unreported := uuids - self._nodes.keys() - self._sharing:
            return UnverifiedReason.NOT_REPORTED, unreported
        incomplete = set()
        for uuid in uuids & self._nodes.keys():
            node = self._nodes[uuid]
            # An instance may be recorded on a host without its node.
            names = (node.hypervisor_hostname, None)
            recorded = sum(self._recorded.get((node.host, name), 0) for name in names)
            if int(node.stats.get("num_instances", 0)) > recorded:
                incomplete.add(uuid)
        return (UnverifiedReason.MORE_REPORTED if incomplete else None), incomplete


@dataclass(frozen=True, slots=True)
class OrphanAllocation:
    """The orphaned allocations of a consumer from a provider.

    ``runs_on`` is the current host of an instance that has left the provider's host.
    """

    consumer: str
    provider_uuid: str
    provider_name: str
    resources: dict[str, int]
    runs_on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit, with the number of deleted consumers."""

    orphaned: tuple[OrphanAllocation, ...]
    #: Consumers without a record that may still be instances.
    unverified: tuple[UnverifiedConsumer, ...] = ()
    deleted: int = 0
    #: Messages about policies of aggregates. They are never fixed automatically.
    policy_faults: tuple[str, ...] = ()
    #: The listed consumers without orphaned allocations, and why they have none.
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def consumers(self) -> frozenset[str]:
        """Return the consumers with orphaned allocations."""
        return frozenset(item.consumer for item in self.orphaned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Auditor of the providers of all compute nodes, or of ``provider_uuid``.

    ``unknown_owner`` are the default project and user of consumers. ``policies`` are the valid
    policies of aggregates. With ``all_recorded``, all instances are recorded in this database.
    ``consumers`` are consumers that the operator lists (empty: all). Only they are audited, and
    they are orphans unless they are recorded instances. A host is down after ``down_time`` seconds
    without a heartbeat.
    """

    database: Database
    clock: Clock
    unknown_owner: tuple[str, str]
    provider_uuid: str | None = None
    policies: Policies | None = None
    all_recorded: bool = False
    consumers: frozenset[str] = frozenset()
    down_time: int = 60

    def find(self) -> Audit:
        """Find orphaned allocations, or raise NotFound for an unknown provider."""
        with self.database.read() as connection:
            orphaned, unverified = self._find_orphaned(connection, sorted(self.consumers) or None)
            policy_faults: tuple[str, ...] = ()
            if self.policies is not None:
                policy_faults = tuple(
                    find_faults(host_aggregates.read_snapshot(connection), self.policies)
                )
            audit = Audit(orphaned=orphaned, unverified=unverified, policy_faults=policy_faults)
            return replace(audit, reasons=self._explain_kept(connection, audit))

    def _explain_kept(self, connection: Connection, audit: Audit) -> dict[str, str]:
        uuids = sorted(self.consumers - audit.consumers)
        recorded = {instance.uuid for instance in instances.list_by_uuids(connection, uuids)}
        rows = allocations.list_by_consumers(connection, uuids)
        types = {row.consumer.uuid.lower(): row.consumer.consumer_type for row in rows}

        def explain(uuid: str) -> str:
            if uuid in recorded:
                return "is a recorded instance"
            if uuid not in types:
                return "has no allocations"
            if types[uuid] in {None, INSTANCE_TYPE}:
                return "has no allocations from the audited providers"
            return f"has the type {types[uuid]}"

        return {uuid: explain(uuid) for uuid in uuids}

    def _find_orphaned(
        self, connection: Connection, consumers: Sequence[str] | None = None
    ) -> tuple[tuple[OrphanAllocation, ...], tuple[UnverifiedConsumer, ...]]:
        provider_id = None
        if self.provider_uuid is not None:
            provider_id = resource_providers.get_by_uuid(connection, self.provider_uuid).id
        uuids = list_orphans(connection, provider_id, consumers)
        rows = allocations.list_by_consumers(connection, sorted(uuids))
        records = _InstanceRecords(connection, rows, all_recorded=self.all_recorded)
        unverified = {
            uuid: reason
            for uuid, group in _group_by_consumer(rows).items()
            if uuid not in self.consumers and (reason := records.verify(uuid, group))
        }
        audited = [
            row for row in rows if row.consumer.uuid not in unverified and self._is_audited(row)
        ]
        names = resource_providers.map_names(connection, {row.provider_uuid for row in audited})
        evacuated = self._find_evacuated(connection, consumers)
        return (*_group_orphans(audited, names), *evacuated), tuple(unverified.values())

    def reject_living(self, audit: Audit) -> None:
        """Raise :class:`Invalid` for listed consumers that are instances."""
        with self.database.read() as connection:
            living = instances.list_by_uuids(connection, sorted(self.consumers - audit.consumers))
        for instance in living:
            raise Invalid(
                f"consumer {instance.uuid} is the instance {instance.display_name} on host "
                f"{instance.host}: nothing was deleted. If the instance does not exist any more, "
                f"DELETE /scheduler/v1/instances/{instance.uuid} deletes its record and allocations"
            )

    def delete(self, audit: Audit, progress: Callable[[int, int | None], None]) -> Audit:
        """Delete the allocations that are still orphaned, in batches."""
        consumers, done, deleted = sorted(audit.consumers), 0, 0
        for batch in split_batches(consumers, _BATCH):
            free = partial(self._delete_orphaned, consumers=batch)
            deleted += call_with_retries(partial(self.database.write, free))
            done += len(batch)
            progress(done, len(consumers))
        return replace(audit, deleted=deleted)

    def _delete_orphaned(self, connection: Connection, consumers: Sequence[str]) -> int:
        orphaned, _ = self._find_orphaned(connection, consumers)
        removed = {(item.consumer, item.provider_uuid) for item in orphaned}
        rows = allocations.list_by_consumers(connection, sorted({uuid for uuid, _ in removed}))
        claims = [
            ConsumerClaim(
                consumer=uuid.lower(),
                allocations=_map_amounts_by_provider(
                    row for row in group if (uuid, row.provider_uuid) not in removed
                ),
                project_id=group[0].consumer.project_id or self.unknown_owner[0],
                user_id=group[0].consumer.user_id or self.unknown_owner[1],
                # Very old databases have consumers with allocations but without a record.
                generation=UNCHECKED
                if group[0].consumer.generation is None
                else group[0].consumer.generation,
            )
            for uuid, group in _group_by_consumer(rows).items()
        ]
        allocations.replace(connection, claims, self.clock())
        return len(claims)

    def _find_evacuated(
        self, connection: Connection, uuids: Collection[str] | None = None
    ) -> tuple[OrphanAllocation, ...]:
        """Find allocations that evacuated instances left on hosts that are down.

        An instance counts as evacuated if it is recorded on another host and also has allocations
        there. Otherwise it may still be moving. If a host is up, its nova-compute deletes such
        allocations.
        """
        hosts = find_allocated_elsewhere(connection, uuids)
        services_by_host = services.map_by_host(
            connection, {host for roots_by_host in hosts.values() for host in roots_by_host}
        )
        now = self.clock()
        down = {
            host
            for host, service in services_by_host.items()
            if not service.is_up(now, self.down_time)
        }
        roots = {
            uuid: {root for host, uuids in roots_by_host.items() if host in down for root in uuids}
            for uuid, roots_by_host in hosts.items()
        }
        rows = allocations.list_by_consumers(
            connection, sorted(uuid for uuid, uuids in roots.items() if uuids)
        )
        providers = resource_providers.map_by_uuid(connection, {row.provider_uuid for row in rows})
        places = {item.uuid: item.host for item in instances.list_by_uuids(connection, roots)}
        audited = [
            row
            for row in rows
            if self._is_audited(row)
            and providers[row.provider_uuid].root_uuid in roots[row.consumer.uuid]
        ]
        names = {uuid: provider.name for uuid, provider in providers.items()}
        return tuple(
            replace(item, runs_on=places[item.consumer]) for item in _group_orphans(audited, names)
        )

    def _is_audited(self, row: Allocation) -> bool:
        return self.provider_uuid in {None, row.provider_uuid}


def _group_orphans(rows: Iterable[Allocation], names: Mapping[str, str]) -> list[OrphanAllocation]:
    return [
        OrphanAllocation(consumer, uuid, names.get(uuid, uuid), resources)
        for consumer, group in _group_by_consumer(rows).items()
        for uuid, resources in sorted(_map_amounts_by_provider(group).items())
    ]


#: Extra specs of devices. nova-manage heals no allocations of flavors with these specs either.
_UNHEALABLE_SPECS = frozenset({"resources:VGPU", "accel:device_profile"})


class HealOutcome(Enum):
    """Outcome of healing the allocations of an instance."""

    CREATED = "created"
    UPDATED = "updated"
    SKIPPED = "skipped"
    NO_NODE = "no compute node"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """The allocations of an instance by provider, or the reason for none."""

    instance: str
    outcome: HealOutcome
    allocations: Mapping[str, Mapping[str, int]] | None = None
    reason: str | None = None

    @property
    def is_healed(self) -> bool:
        """Return whether allocations were written, or would be without a dry run."""
        return self.outcome in {HealOutcome.CREATED, HealOutcome.UPDATED}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealRequest:
    """The instances to heal: all, all of a cell, or a single instance.

    ``limit`` limits the number of healed instances. ``force`` replaces existing allocations.
    """

    instance: str | None = None
    cell_uuid: str | None = None
    limit: int | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Healer:
    """Healer of missing allocations, with a default project and user."""

    database: Database
    clock: Clock
    unknown_owner: tuple[str, str]
    request: HealRequest

    def heal(self) -> Iterator[Healing]:
        """Yield results until ``limit`` are healed, or raise :class:`NotFound`."""
        healed = 0
        instance, cell_uuid = self.request.instance, self.request.cell_uuid
        with self.database.read() as connection:
            if instance is not None:
                instances.get_by_uuid(connection, instance)
            if cell_uuid and cell_uuid not in compute_nodes.map_uuids_by_cell(connection):
                raise NotFound(f"no compute node is in a cell {cell_uuid}")
        for uuid in self._iterate_unallocated(None) if instance is None else (instance,):
            if (result := self._heal(uuid)) is not None:
                healed += result.is_healed
                yield result
            if self.request.limit is not None and healed >= self.request.limit:
                return

    def count(self) -> int:
        """Return the number of instances to examine."""
        if self.request.instance is not None:
            return 1
        with self.database.read() as connection:
            return instances.count_unallocated(
                connection,
                incomplete_project_id=self.unknown_owner[0],
                cell_uuid=self.request.cell_uuid,
            )

    def has_more(self, after: str) -> bool:
        """Return whether further instances after this uuid need healing."""
        results = map(self._examine_only, self._iterate_unallocated(after))
        return any(result is not None and result.is_healed for result in results)

    def _iterate_unallocated(self, after: str | None) -> Iterator[str]:
        while True:
            with self.database.read() as connection:
                page = instances.list_unallocated(
                    connection,
                    incomplete_project_id=self.unknown_owner[0],
                    cell_uuid=self.request.cell_uuid,
                    after=after,
                    limit=BATCH,
                )
            if not page:
                return
            yield from page
            after = page[-1]

    def _heal(self, uuid: str) -> Healing | None:

        def write(connection: Connection) -> Healing | None:
            # The lock waits for a concurrent deletion of an instance, which is then missing.
            result, claims = self._examine(connection, uuid, lock=True)
            allocations.replace(connection, claims, self.clock())
            return result

        if self.request.dry_run:
            return self._examine_only(uuid)
        try:
            return call_with_retries(lambda: self.database.claim(write))
        except (Conflict, Invalid) as failure:
            return Healing(instance=uuid, outcome=HealOutcome.FAILED, reason=failure.detail)

    def _examine_only(self, uuid: str) -> Healing | None:
        with self.database.read() as connection:
            return self._examine(connection, uuid, lock=False)[0]

    def _examine(
        self, connection: Connection, uuid: str, *, lock: bool
    ) -> tuple[Healing | None, list[ConsumerClaim]]:
        for instance in instances.list_by_uuids(connection, [uuid], lock=lock):
            rows = allocations.list_by_consumers(connection, [uuid])
            nodes = compute_nodes.map_uuids_by_name(connection, {instance.host or ""})
            node = nodes.get((instance.host or "", instance.node or ""))
            request = instances.map_requests(connection, [uuid]).get(uuid)
            return self._plan(instance, rows, node, request)
        return None, []

    def _plan(
        self,
        instance: Instance,
        rows: Sequence[Allocation],
        node: str | None,
        request: Document | None,
    ) -> tuple[Healing, list[ConsumerClaim]]:
        end = partial(Healing, instance=instance.uuid)
        if reason := self._find_reason_to_skip(instance, rows):
            return end(outcome=HealOutcome.SKIPPED, reason=reason), []
        if rows and not self.request.force:
            amounts = _map_amounts_by_provider(rows)
        elif node is None:
            reason = f"there is no compute node {instance.node} of host {instance.host}"
            return end(outcome=HealOutcome.NO_NODE, reason=reason), []
        else:
            try:
                amounts = {node: _compute_requested_amounts(instance, request)}
            except Invalid as wrong:
                return end(outcome=HealOutcome.FAILED, reason=wrong.detail), []
        claim = ConsumerClaim(
            consumer=instance.uuid,
            allocations=amounts,
            project_id=instance.project_id or self.unknown_owner[0],
            user_id=instance.user_id or self.unknown_owner[1],
            consumer_type=INSTANCE_TYPE,
            # The generation detects a concurrent allocation for the instance.
            generation=rows[0].consumer.generation if rows else None,
        )
        outcome = HealOutcome.UPDATED if rows else HealOutcome.CREATED
        return end(outcome=outcome, allocations=amounts), [claim]

    def _find_reason_to_skip(self, instance: Instance, rows: Sequence[Allocation]) -> str | None:
        if instance.task_state is not None:
            return f"it is in the task state {instance.task_state}"
        if instance.host is None or instance.node is None:
            return "it is not on a node"
        if not rows or self.request.force:
            return None
        if rows[0].consumer.project_id not in {None, self.unknown_owner[0]}:
            return "it has allocations"
        if instance.project_id in {None, self.unknown_owner[0]}:
            return "it has allocations, and its record names no project"
        return None


def _compute_requested_amounts(instance: Instance, request: Document | None) -> dict[str, int]:
    flavor = instance.flavor
    if flavor is None or not {"vcpus", "memory_mb"} & flavor.keys():
        raise Invalid("its flavor is unknown")
    boot_from_volume = bool((request or {}).get("is_bfv"))
    requested = dict(
        compute_flavor_amounts(Flavor.from_document(flavor), boot_from_volume=boot_from_volume)
    )
    if not requested:
        raise Invalid("its flavor requests no resources")
    for key in sorted(_UNHEALABLE_SPECS & (flavor.get("extra_specs") or {}).keys()):
        raise Invalid(
            f"its flavor has {key}, and the devices of the instance are not recorded: allocate "
            "them by openstack resource provider allocation set"
        )
    return requested
