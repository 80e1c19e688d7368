"""Creates the allocations that recorded instances lack.

The rules are those of ``nova-manage placement heal_allocations`` (nova's documentation,
"nova-manage"): an instance that is on a node and in no task gets what its flavor asks of the root
provider of that node. An instance that holds something is left alone, unless what it holds names
of no project, or it is forced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Conflict, Invalid, NotFound
from placement_sched.model.clock import Clock
from placement_sched.model.decision import Decision
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.provider import INSTANCE_TYPE, Allocation, ConsumerClaim
from placement_sched.model.retry import retrying
from placement_sched.operations.repair.known_instances import amounts_by_provider, by_consumer
from placement_sched.scheduler.request_groups import amounts_of
from placement_sched.store import decisions
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import allocations

#: So many instances are looked at together, as nova does.
BATCH = 50
#: How often healing is retried where other writers change the allocations of an instance.
_ATTEMPTS = 10


class HealOutcome(Enum):
    """What became of an instance."""

    CREATED = "created"
    UPDATED = "updated"
    SKIPPED = "skipped"
    NO_NODE = "no compute node"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """What became of one instance: what it holds now by provider, or why it does not."""

    instance: str
    outcome: HealOutcome
    allocations: Mapping[str, Mapping[str, int]] | None = None
    reason: str | None = None

    @property
    def done(self) -> bool:
        """Return whether its allocations were written (in a dry run: would be)."""
        return self.outcome in {HealOutcome.CREATED, HealOutcome.UPDATED}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealRequest:
    """Which instances are looked at: all, those of a cell, or one, which may be forced.

    ``most`` limits how many are healed; None means all. With ``dry_run`` nothing is written.
    """

    instance: str | None = None
    cell_uuid: str | None = None
    most: int | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Healer:
    """Heals allocations; ``no_owner`` are the project and user of instances without any."""

    database: Database
    clock: Clock
    no_owner: tuple[str, str]
    wanted: HealRequest

    def heal(self) -> Iterator[Healing]:
        """Yield the result for one instance after the other; it may be called again.

        Nothing is yielded beyond ``most`` that are healed. Raises :class:`NotFound` for an
        instance or a cell that is not there.
        """
        healed = 0
        for batch in self._batches():
            room = None if self.wanted.most is None else self.wanted.most - healed
            for one in self._some(batch, room):
                healed += one.done
                yield one
            if self.wanted.most is not None and healed >= self.wanted.most:
                return

    def to_look_at(self) -> int:
        """Return how many instances there are to be looked at."""
        if self.wanted.instance is not None:
            return 1
        with self.database.read() as connection:
            return instances.count_unallocated(
                connection, no_owner=self.no_owner[0], cell_uuid=self.wanted.cell_uuid
            )

    def more(self, after: str) -> bool:
        """Return whether an instance after this one is to be healed."""
        return any(
            one.done
            for batch in self._pages(after)
            for one in self._written(batch, dry_run=True, room=None)
        )

    def _batches(self) -> Iterator[Sequence[str]]:
        wanted = self.wanted
        with self.database.read() as connection:
            if wanted.instance is not None:
                instances.by_uuid(connection, wanted.instance)
            if wanted.cell_uuid and not compute_nodes.is_cell(connection, wanted.cell_uuid):
                raise NotFound(f"no compute node is in a cell {wanted.cell_uuid}")
        if wanted.instance is not None:
            yield [wanted.instance]
        else:
            yield from self._pages(None)

    def _pages(self, after: str | None) -> Iterator[Sequence[str]]:
        while True:
            with self.database.read() as connection:
                page = instances.unallocated(
                    connection,
                    no_owner=self.no_owner[0],
                    cell_uuid=self.wanted.cell_uuid,
                    after=after,
                    limit=BATCH,
                )
            if not page:
                return
            yield page
            after = page[-1]

    def _some(self, uuids: Sequence[str], room: int | None) -> Sequence[Healing]:
        """Heal some instances together; where that cannot be, one by one."""
        try:
            return self._written(uuids, dry_run=self.wanted.dry_run, room=room)
        except (Conflict, Invalid):
            found: list[Healing] = []
            for uuid in uuids:
                if room is not None and sum(one.done for one in found) >= room:
                    break
                found += self._alone(uuid)
            return found

    def _alone(self, uuid: str) -> Sequence[Healing]:
        try:
            return retrying(lambda: self._written([uuid], dry_run=False, room=None), _ATTEMPTS)
        except (Conflict, Invalid) as failure:
            return [Healing(instance=uuid, outcome=HealOutcome.FAILED, reason=failure.detail)]

    def _written(self, ids: Sequence[str], *, dry_run: bool, room: int | None) -> Sequence[Healing]:

        def write(connection: Connection) -> Sequence[Healing]:
            # An instance that is just being deleted is waited for, and then not there any more.
            found = self._examined(connection, ids, room, lock=True)
            claims = [claim for _, claim in found if claim is not None]
            allocations.replace(connection, claims, self.clock())
            return [one for one, _ in found]

        if not dry_run:
            return self.database.claim(write)
        with self.database.read() as connection:
            return [one for one, _ in self._examined(connection, ids, room, lock=False)]

    def _examined(
        self, connection: Connection, uuids: Sequence[str], room: int | None, *, lock: bool
    ) -> list[tuple[Healing, ConsumerClaim | None]]:
        """Return what is to become of the instances, up to ``room`` that are to be healed."""
        recorded = instances.by_uuids(connection, uuids, lock=lock)
        held = by_consumer(allocations.of_consumers(connection, uuids))
        held_of = {uuid.lower(): some for uuid, some in held.items()}
        nodes = compute_nodes.uuids_by_name(connection, {one.host or "" for one in recorded})
        decided = decisions.of_instances(connection, uuids)
        found: list[tuple[Healing, ConsumerClaim | None]] = []
        for instance in recorded:
            if room is not None and sum(one.done for one, _ in found) >= room:
                break
            node = nodes.get((instance.host or "", instance.node or ""))
            decision = decided.get(instance.uuid)
            found.append(self._healing(instance, held_of.get(instance.uuid, ()), node, decision))
        return found

    def _healing(
        self,
        instance: Instance,
        held: Sequence[Allocation],
        node: str | None,
        decision: Decision | None,
    ) -> tuple[Healing, ConsumerClaim | None]:
        end = partial(Healing, instance=instance.uuid)
        if reason := self._reason_to_skip(instance, held):
            return end(outcome=HealOutcome.SKIPPED, reason=reason), None
        if held and not self.wanted.force:
            wanted = amounts_by_provider(held)
        elif node is None:
            reason = f"there is no compute node {instance.node} of host {instance.host}"
            return end(outcome=HealOutcome.NO_NODE, reason=reason), None
        else:
            try:
                wanted = {node: _asked(instance, decision)}
            except Invalid as wrong:
                return end(outcome=HealOutcome.FAILED, reason=wrong.detail), None
        claim = ConsumerClaim(
            consumer=instance.uuid,
            allocations=wanted,
            project_id=instance.project_id or self.no_owner[0],
            user_id=instance.user_id or self.no_owner[1],
            consumer_type=INSTANCE_TYPE,
            # Another request has allocated for it at this moment.
            generation=held[0].consumer.generation if held else None,
        )
        outcome = HealOutcome.UPDATED if held else HealOutcome.CREATED
        return end(outcome=outcome, allocations=wanted), claim

    def _reason_to_skip(self, instance: Instance, held: Sequence[Allocation]) -> str | None:
        if instance.task_state is not None:
            return f"it is in the task state {instance.task_state}"
        if instance.host is None or instance.node is None:
            return "it is not on a node"
        if not held or self.wanted.force:
            return None
        if held[0].consumer.project_id not in {None, self.no_owner[0]}:
            return "it has allocations"
        if instance.project_id in {None, self.no_owner[0]}:
            return "it has allocations, and its record names no project"
        return None


def _asked(instance: Instance, decision: Decision | None) -> dict[str, int]:
    flavor = instance.flavor
    if flavor is None or not {"vcpus", "memory_mb"} & flavor.keys():
        raise Invalid("its flavor is not known")
    boot_from_volume = decision is not None and bool(decision.request.get("is_bfv"))
    asked = dict(amounts_of(Flavor.from_document(flavor), boot_from_volume=boot_from_volume))
    if not asked:
        raise Invalid("its flavor requests no resources")
    return asked
