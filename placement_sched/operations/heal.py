"""Creates the allocations that recorded instances lack.

The rules are those of ``nova-manage placement heal_allocations`` (nova's documentation,
"nova-manage"): an instance that is on a node and in no task gets what its flavor asks of the root
provider of that node. An instance that holds something is left alone, unless what it holds tells
of no project, or it is forced.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.errors import ConcurrentUpdate, Conflict, Invalid, NotFound
from placement_sched.model.allocation import INSTANCE_TYPE, Allocation, ConsumerClaim
from placement_sched.model.clock import Clock
from placement_sched.model.decision import Decision
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.scheduler.groups import amounts_of
from placement_sched.store import allocations, compute_nodes, decisions, instances, unallocated

#: So many instances are looked at together, as nova does.
BATCH = 50
#: How often an instance is looked at anew where others change its allocations meanwhile.
_ATTEMPTS = 10

Amounts = Mapping[str, int]


class Outcome(Enum):
    """What became of an instance."""

    CREATED = "created"
    UPDATED = "updated"
    SKIPPED = "skipped"
    NO_NODE = "no compute node"
    FAILED = "failed"


_DONE = (Outcome.CREATED, Outcome.UPDATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """What became of one instance: what it holds now by provider, or why it does not."""

    instance: str
    outcome: Outcome
    allocations: Mapping[str, Amounts] | None = None
    reason: str | None = None

    @property
    def done(self) -> bool:
        """Return whether its allocations were written (in a dry run: would be)."""
        return self.outcome in _DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which instances are looked at: all, those of a cell, or one, which may be forced.

    ``most`` is how many are healed at most; None is no bound. With ``dry_run`` nothing is written.
    """

    instance: str | None = None
    cell_uuid: str | None = None
    most: int | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Healer:
    """Heals allocations; ``nobody`` are project and user of instances that tell none."""

    database: Database
    clock: Clock
    nobody: tuple[str, str]
    wanted: Wanted

    def heal(self) -> Iterator[Healing]:
        """Yield what becomes of one instance after the other; where it is left, it may begin anew.

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
            return unallocated.count(
                connection, nobody=self.nobody[0], cell_uuid=self.wanted.cell_uuid
            )

    def more(self, after: str) -> bool:
        """Return whether an instance behind this one is to be healed."""
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
        """Yield the instances that may have to be healed, page by page."""
        while True:
            with self.database.read() as connection:
                page = unallocated.search(
                    connection,
                    nobody=self.nobody[0],
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
        told = ""
        for _ in range(_ATTEMPTS):
            try:
                return self._written([uuid], dry_run=False, room=None)
            except ConcurrentUpdate as rival:
                told = rival.detail
            except (Conflict, Invalid) as refusal:
                told = refusal.detail
                break
        return [Healing(instance=uuid, outcome=Outcome.FAILED, reason=told)]

    def _written(
        self, uuids: Sequence[str], *, dry_run: bool, room: int | None
    ) -> Sequence[Healing]:
        if dry_run:
            with self.database.read() as connection:
                return [one for one, _ in self._examined(connection, uuids, room, lock=False)]
        return self.database.claim(partial(self._write, uuids=uuids, room=room))

    def _write(
        self, connection: Connection, uuids: Sequence[str], room: int | None
    ) -> Sequence[Healing]:
        """Examine the instances and claim for them, within one write transaction."""
        # An instance that is just being deleted is waited for, and then not there any more.
        found = self._examined(connection, uuids, room, lock=True)
        claims = [claim for _, claim in found if claim is not None]
        allocations.replace(connection, claims, self.clock())
        return [one for one, _ in found]

    def _examined(
        self, connection: Connection, uuids: Sequence[str], room: int | None, *, lock: bool
    ) -> list[tuple[Healing, ConsumerClaim | None]]:
        """Return what is to become of the instances, up to ``room`` that are to be healed."""
        recorded = instances.by_uuids(connection, uuids, lock=lock)
        known = _Known(
            held=_by_consumer(allocations.of_consumers(connection, uuids)),
            nodes=compute_nodes.uuids_by_name(connection, {one.host or "" for one in recorded}),
            decisions=decisions.of_instances(connection, uuids),
            nobody=self.nobody,
            force=self.wanted.force,
        )
        found: list[tuple[Healing, ConsumerClaim | None]] = []
        for instance in recorded:
            if room is not None and sum(one.done for one, _ in found) >= room:
                break
            found.append(known.examined(instance))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of some instances when they are examined."""

    held: Mapping[str, Sequence[Allocation]]
    nodes: Mapping[tuple[str, str], str]
    decisions: Mapping[str, Decision]
    nobody: tuple[str, str]
    force: bool

    def examined(self, instance: Instance) -> tuple[Healing, ConsumerClaim | None]:
        """Return what is to become of an instance, and the claim for it if there is one."""
        held = self.held.get(instance.uuid, ())
        if reason := self._to_be_left(instance, held):
            return _end(instance, Outcome.SKIPPED, reason), None
        if held and not self.force:
            return self._claimed(instance, Outcome.UPDATED, _amounts(held), held)
        node = self.nodes.get((instance.host or "", instance.node or ""))
        if node is None:
            reason = f"there is no compute node {instance.node} of host {instance.host}"
            return _end(instance, Outcome.NO_NODE, reason), None
        try:
            asked = self._asked(instance)
        except Invalid as wrong:
            return _end(instance, Outcome.FAILED, wrong.detail), None
        outcome = Outcome.UPDATED if held else Outcome.CREATED
        return self._claimed(instance, outcome, {node: asked}, held)

    def _to_be_left(self, instance: Instance, held: Sequence[Allocation]) -> str | None:
        """Return why nothing is to be done for an instance, or None."""
        if instance.task_state is not None:
            return f"it is in the task state {instance.task_state}"
        if instance.host is None or instance.node is None:
            return "it is on no node"
        if not held or self.force:
            return None
        if held[0].consumer.project_id not in {None, self.nobody[0]}:
            return "it holds allocations"
        if instance.project_id in {None, self.nobody[0]}:
            return "it holds allocations, and its record tells no project either"
        return None

    def _asked(self, instance: Instance) -> Amounts:
        """Return what the flavor asks; raises :class:`Invalid` where it is not known or wrong."""
        flavor = instance.flavor
        if flavor is None or not {"vcpus", "memory_mb"} & flavor.keys():
            raise Invalid("its flavor is not known")
        decision = self.decisions.get(instance.uuid)
        boot_from_volume = decision is not None and bool(decision.request.get("is_bfv"))
        asked = dict(amounts_of(Flavor.from_document(flavor), boot_from_volume=boot_from_volume))
        if not asked:
            raise Invalid("its flavor asks for nothing")
        return asked

    def _claimed(
        self,
        instance: Instance,
        outcome: Outcome,
        wanted: Mapping[str, Amounts],
        held: Sequence[Allocation],
    ) -> tuple[Healing, ConsumerClaim]:
        claim = ConsumerClaim(
            consumer=instance.uuid,
            allocations=wanted,
            project_id=instance.project_id or self.nobody[0],
            user_id=instance.user_id or self.nobody[1],
            consumer_type=INSTANCE_TYPE,
            # Whoever allocates for it at this moment has been here before us.
            generation=held[0].consumer.generation if held else None,
        )
        return _end(instance, outcome, None, wanted), claim


def _end(
    instance: Instance,
    outcome: Outcome,
    reason: str | None,
    wanted: Mapping[str, Amounts] | None = None,
) -> Healing:
    return Healing(instance=instance.uuid, outcome=outcome, reason=reason, allocations=wanted)


def _by_consumer(held: Collection[Allocation]) -> dict[str, list[Allocation]]:
    found: dict[str, list[Allocation]] = {}
    for one in held:
        found.setdefault(one.consumer.uuid.lower(), []).append(one)
    return found


def _amounts(held: Sequence[Allocation]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in held:
        found.setdefault(one.provider_uuid, {})[one.resource_class] = one.used
    return found
