"""Finds allocations of instances that are no more, and frees them if asked.

Where it is handed policies, it tells as well which aggregates and hosts are at odds with them.

The rules are those of ``nova-manage placement audit`` (nova's documentation, "nova-manage"), for
instances that are known (:mod:`placement_sched.operations.known_instances`). A consumer that may be
an instance of which this service does not know is not judged: it is reported, never freed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from placement_sched.db.batches import batches
from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.allocation import UNCHECKED, Allocation, ConsumerClaim
from placement_sched.model.clock import Clock
from placement_sched.operations.aggregate_policies import faults
from placement_sched.operations.known_instances import Doubtful, KnownInstances, RecordedHere
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import allocations, host_aggregates, orphans, resource_providers

#: So many consumers are freed in one transaction, so that nobody waits long for a lock.
BATCH = 500
#: How often a batch starts again where others changed a consumer of it meanwhile.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Orphaned:
    """What one consumer without an instance holds of one provider."""

    consumer: str
    provider_uuid: str
    provider_name: str
    resources: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found, and of how many consumers it was deleted."""

    orphaned: tuple[Orphaned, ...]
    #: Consumers without a record that may be instances all the same.
    doubtful: tuple[Doubtful, ...] = ()
    deleted: int = 0
    #: What is wrong with the policies of aggregates, which nothing here mends.
    policy_faults: tuple[str, ...] = ()

    @property
    def consumers(self) -> frozenset[str]:
        """Return the consumers of what was found."""
        return frozenset(one.consumer for one in self.orphaned)


#: Told how many consumers are freed, and of how many.
Told = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Looks through the compute nodes' providers, or through the one of ``provider_uuid``.

    Of that one alone is then found and deleted what a consumer holds; else everything that an
    orphan holds, wherever. ``nobody`` are project and user of consumers of which none is known.
    ``policies``, where given, are those that aggregates may name. ``known`` judges which consumers
    are gone.
    """

    database: Database
    clock: Clock
    nobody: tuple[str, str]
    provider_uuid: str | None = None
    policies: Policies | None = None
    known: KnownInstances = field(default_factory=RecordedHere)

    def find(self) -> Audit:
        """Return what is orphaned; raises :class:`NotFound` for a provider that is not there."""
        with self.database.read() as connection:
            consumers = orphans.find(connection, self._provider_id(connection))
            held = allocations.of_consumers(connection, consumers)
            judged = self.known.judge(connection, held)
            mine = [one for one in held if one.consumer.uuid in judged.gone and self._concerns(one)]
            names = resource_providers.by_uuids(connection, {one.provider_uuid for one in mine})
            policy_faults = self._policy_faults(connection)
        return Audit(
            orphaned=tuple(
                Orphaned(consumer, uuid, names[uuid].name if uuid in names else uuid, resources)
                for (consumer, uuid), resources in _summed(mine)
            ),
            doubtful=tuple(judged.doubtful[uuid] for uuid in sorted(judged.doubtful)),
            policy_faults=policy_faults,
        )

    def delete(self, audit: Audit, told: Told) -> Audit:
        """Delete what was found and still is orphaned, batch by batch; stopped, it goes on anew."""
        consumers, done, deleted = sorted(audit.consumers), 0, 0
        for batch in batches(consumers, BATCH):
            deleted += self._freed(batch)
            done += len(batch)
            told(done, len(consumers))
        return replace(audit, deleted=deleted)

    def _policy_faults(self, connection: Connection) -> tuple[str, ...]:
        if self.policies is None:
            return ()
        return tuple(faults(host_aggregates.snapshot(connection), self.policies))

    def _freed(self, consumers: Sequence[str]) -> int:
        for _ in range(_ATTEMPTS):
            try:
                return self.database.write(partial(self._free, consumers=consumers))
            except ConcurrentUpdate:
                continue
        raise ConcurrentUpdate("others changed the same consumers again and again; try again")

    def _free(self, connection: Connection, consumers: Sequence[str]) -> int:
        """Free what is still orphaned, by the one write through which all allocations go."""
        left = orphans.still(connection, consumers, self._provider_id(connection))
        held = allocations.of_consumers(connection, sorted(left))
        gone = self.known.judge(connection, held).gone
        claims = [self._claim(uuid, some) for uuid, some in _by_consumer(held) if uuid in gone]
        allocations.replace(connection, claims, self.clock())
        return len(claims)

    def _claim(self, uuid: str, held: Sequence[Allocation]) -> ConsumerClaim:
        """Return the claim of a consumer to what is not to be deleted."""
        owner = held[0].consumer
        kept: dict[str, dict[str, int]] = {}
        for one in held:
            if not self._concerns(one):
                kept.setdefault(one.provider_uuid, {})[one.resource_class] = one.used
        return ConsumerClaim(
            consumer=uuid.lower(),
            allocations=kept,
            project_id=owner.project_id or self.nobody[0],
            user_id=owner.user_id or self.nobody[1],
            # Very old databases have allocations of consumers without a record.
            generation=UNCHECKED if owner.generation is None else owner.generation,
        )

    def _concerns(self, held: Allocation) -> bool:
        return self.provider_uuid in {None, held.provider_uuid}

    def _provider_id(self, connection: Connection) -> int | None:
        if self.provider_uuid is None:
            return None
        return resource_providers.by_uuid(connection, self.provider_uuid).id


def _by_consumer(held: Iterable[Allocation]) -> list[tuple[str, list[Allocation]]]:
    ordered = sorted(held, key=lambda one: one.consumer.uuid)
    return [(uuid, list(some)) for uuid, some in groupby(ordered, lambda one: one.consumer.uuid)]


def _summed(held: Iterable[Allocation]) -> list[tuple[tuple[str, str], dict[str, int]]]:
    """Return amounts by class, by consumer and provider, in order of these."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for one in held:
        amounts = found.setdefault((one.consumer.uuid, one.provider_uuid), {})
        amounts[one.resource_class] = one.used
    return sorted(found.items(), key=lambda item: item[0])
