"""Finds allocations of instances that are no more, and frees them if asked.

Given policies, it also reports what contradicts them. The rules are those of ``nova-manage
placement audit`` (nova's documentation) for instances that are known (``repair.known_instances``);
a consumer that may be an instance without a record here is reported, never freed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.model.provider import UNCHECKED, Allocation, ConsumerClaim
from placement_sched.model.retry import retrying
from placement_sched.operations.aggregate_policies import faults
from placement_sched.operations.repair import known_instances
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store.checks import on_other_hosts, orphans, still_orphans
from placement_sched.store.compute import host_aggregates, instances, services
from placement_sched.store.placement import allocations, resource_providers

#: So many consumers are freed in one transaction, so that no other writer waits long for a lock.
_BATCH = 500
#: How often a batch starts again where others changed a consumer of it meanwhile.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Orphaned:
    """Orphaned allocations of one consumer from one provider.

    ``runs_on`` is the host of the consumer if it is an instance that has left the provider's host.
    """

    consumer: str
    provider_uuid: str
    provider_name: str
    resources: dict[str, int]
    runs_on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found, and of how many consumers it was deleted."""

    orphaned: tuple[Orphaned, ...]
    #: Consumers without a record that may still be instances.
    doubtful: tuple[known_instances.Doubtful, ...] = ()
    deleted: int = 0
    #: What is wrong with the policies of aggregates, which nothing here mends.
    policy_faults: tuple[str, ...] = ()

    @property
    def consumers(self) -> frozenset[str]:
        """Return the consumers of what was found."""
        return frozenset(one.consumer for one in self.orphaned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Looks through the compute nodes' providers, or only that of ``provider_uuid``.

    ``no_owner`` are project and user of consumers of which none is known, ``policies`` those that
    aggregates may name; ``judge`` finds which consumers are gone. Consumers that the operator has
    ``named`` count as gone if they are not recorded instances. A host is down if it has been silent
    for ``down_time`` seconds.
    """

    database: Database
    clock: Clock
    no_owner: tuple[str, str]
    provider_uuid: str | None = None
    policies: Policies | None = None
    judge: known_instances.Judge = known_instances.judge_recorded_here
    named: frozenset[str] = frozenset()
    down_time: int = 60

    def find(self) -> Audit:
        """Return what is orphaned; raises :class:`NotFound` for a provider that is not there."""
        with self.database.read() as connection:
            consumers = orphans(connection, self._provider_id(connection))
            held = allocations.of_consumers(connection, consumers)
            doubts = self._doubts(connection, held)
            mine = [one for one in held if not doubts[one.consumer.uuid] and self._concerns(one)]
            names = resource_providers.by_uuids(connection, {one.provider_uuid for one in mine})
            left = self._left_over(connection)
            policy_faults: tuple[str, ...] = ()
            if self.policies is not None:
                policy_faults = tuple(faults(host_aggregates.snapshot(connection), self.policies))
        return Audit(
            orphaned=tuple(
                Orphaned(consumer, uuid, names[uuid].name if uuid in names else uuid, resources)
                for consumer, some in known_instances.by_consumer(mine).items()
                for uuid, resources in sorted(known_instances.amounts_by_provider(some).items())
            )
            + left,
            doubtful=tuple(doubt for _, doubt in sorted(doubts.items()) if doubt),
            policy_faults=policy_faults,
        )

    def delete(self, audit: Audit, progress: Callable[[int, int | None], None]) -> Audit:
        """Delete what still is orphaned, batch by batch; ``progress`` takes how many, of all."""
        consumers, done, deleted = sorted(audit.consumers), 0, 0
        for batch in batches(consumers, _BATCH):
            deleted += self._freed(batch)
            done += len(batch)
            progress(done, len(consumers))
        return replace(audit, deleted=deleted)

    def _freed(self, consumers: Sequence[str]) -> int:
        try:
            return retrying(
                lambda: self.database.write(lambda connection: self._free(connection, consumers)),
                _ATTEMPTS,
            )
        except ConcurrentUpdate:
            raise ConcurrentUpdate(
                f"concurrent updates of the same consumers; gave up after {_ATTEMPTS} attempts"
            ) from None

    def _free(self, connection: Connection, consumers: Sequence[str]) -> int:
        left = still_orphans(connection, consumers, self._provider_id(connection))
        held = allocations.of_consumers(connection, sorted(left))
        doubts = self._doubts(connection, held)
        claims = [
            self._claim(some, self._concerns)
            for uuid, some in known_instances.by_consumer(held).items()
            if not doubts[uuid]
        ]
        left_over = {
            (one.consumer, one.provider_uuid) for one in self._left_over(connection, consumers)
        }
        held = allocations.of_consumers(connection, sorted({uuid for uuid, _ in left_over}))
        claims += [
            self._claim(some, lambda one: (one.consumer.uuid, one.provider_uuid) in left_over)
            for some in known_instances.by_consumer(held).values()
        ]
        allocations.replace(connection, claims, self.clock())
        return len(claims)

    def _doubts(
        self, connection: Connection, held: Sequence[Allocation]
    ) -> dict[str, known_instances.Doubtful | None]:
        doubts = self.judge(connection, held)
        return {uuid: None if uuid in self.named else doubt for uuid, doubt in doubts.items()}

    def _left_over(
        self, connection: Connection, uuids: Collection[str] | None = None
    ) -> tuple[Orphaned, ...]:
        """Return allocations that instances left on hosts that are down, as after an evacuation.

        The instance is recorded on another host and has allocations there, so no move is at work.
        A host that is up deletes them itself.
        """
        hosts = on_other_hosts(connection, uuids)
        found = services.by_hosts(
            connection, {host for others in hosts.values() for host in others}
        )
        now = self.clock()
        down = {host for host, one in found.items() if not one.is_up(now, self.down_time)}
        roots = {
            uuid: {root for host, some in others.items() if host in down for root in some}
            for uuid, others in hosts.items()
        }
        held = allocations.of_consumers(
            connection, sorted(uuid for uuid, some in roots.items() if some)
        )
        providers = resource_providers.by_uuids(connection, {one.provider_uuid for one in held})
        places = {one.uuid: one.host for one in instances.by_uuids(connection, roots)}
        mine = [
            one
            for one in held
            if self._concerns(one)
            and providers[one.provider_uuid].root_uuid in roots[one.consumer.uuid]
        ]
        return tuple(
            Orphaned(consumer, uuid, providers[uuid].name, resources, runs_on=places[consumer])
            for consumer, some in known_instances.by_consumer(mine).items()
            for uuid, resources in sorted(known_instances.amounts_by_provider(some).items())
        )

    def _claim(
        self, held: Sequence[Allocation], goes: Callable[[Allocation], bool]
    ) -> ConsumerClaim:
        owner = held[0].consumer
        return ConsumerClaim(
            consumer=owner.uuid.lower(),
            allocations=known_instances.amounts_by_provider(one for one in held if not goes(one)),
            project_id=owner.project_id or self.no_owner[0],
            user_id=owner.user_id or self.no_owner[1],
            # Very old databases have allocations of consumers without a record.
            generation=UNCHECKED if owner.generation is None else owner.generation,
        )

    def _concerns(self, held: Allocation) -> bool:
        return self.provider_uuid in {None, held.provider_uuid}

    def _provider_id(self, connection: Connection) -> int | None:
        if self.provider_uuid is None:
            return None
        return resource_providers.by_uuid(connection, self.provider_uuid).id
