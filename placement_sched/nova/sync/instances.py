"""Keeps the instances recorded here as nova's cells have them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.model.document import storable
from placement_sched.model.instance import Instance
from placement_sched.nova.databases import instances as nova_instances
from placement_sched.nova.databases import server_groups as nova_groups
from placement_sched.nova.databases.connections import NovaAway
from placement_sched.nova.databases.instances import Flavors, KeptFlavor, NovaInstance
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.findings import Account
from placement_sched.store.compute import flavors as flavors_module
from placement_sched.store.compute import instances, server_groups
from placement_sched.store.compute.instances import Kept, short_id

#: The columns that make a record another one, in the order in which :class:`Kept` has them after
#: the uuid, and how people call them.
_COLUMNS = Kept._fields[1:11]
FIELDS = tuple(name.removesuffix("_digest") for name in _COLUMNS)
#: The columns of a field, where they are not the one of its name.
_COLUMNS_OF = {"flavor": ("flavor", "flavor_digest", "flavorid"), "image_id": ("image_id", "image")}


class NewRecord(NamedTuple):
    """An instance as it is to be recorded; ``values`` are in the order of the columns."""

    uuid: str
    values: tuple[Any, ...]
    flavor: KeptFlavor
    image: str | None
    decision_uuid: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def texts(self) -> dict[str, str | None]:
        """Return the columns that have a text from outside which is not JSON, by their names."""
        return {**dict(zip(_COLUMNS, self.values, strict=True)), "flavorid": self.flavor.flavorid}

    def changed(self, fields: Collection[str]) -> dict[str, Any]:
        """Return of the row the columns of these fields, and what every row that is sent has."""
        row = self.row()
        names = {name for field in fields for name in _COLUMNS_OF.get(field, (field,))}
        # A database wants the name of an instance even where the row is there already.
        return {name: row[name] for name in row if name in {"uuid", "display_name", *names}} | {
            "updated_at": self.updated_at
        }

    def row(self) -> dict[str, Any]:
        """Return the row of the table, but for its number."""
        return {
            "uuid": self.uuid,
            **dict(zip(_COLUMNS, self.values, strict=True)),
            "flavor": None,
            "flavorid": short_id(self.flavor.flavorid),
            "image": self.image,
            "decision_uuid": self.decision_uuid,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


def record_of(
    instance: NovaInstance,
    before: Kept | None,
    *,
    flavor: KeptFlavor,
    group: str | None,
    now: datetime,
    is_pending: Callable[[Kept], bool],
) -> NewRecord:
    """Return the record of an instance.

    A claim of ours is *pending* while nova may not know of it yet: until nova-compute has written
    its name, the host is the one that was chosen here. The image as it was when chosen is kept.
    """
    host, node = instance.host, instance.node
    image_id = short_id(instance.image_ref or None)
    image = None if image_id is None else storable({"id": image_id})
    if before is not None:
        if host is None and instance.vm_state == "building" and is_pending(before):
            host, node = before.host, before.node
        if before.image_id == image_id:
            image = before.image
    created_at = moment(instance.created_at) or now
    values = (
        *(host, node, instance.project_id, instance.user_id),
        instance.display_name or instance.uuid,
        *(instance.vm_state, instance.task_state, flavor.digest, image_id, group),
    )
    return NewRecord(
        uuid=instance.uuid,
        values=values,
        flavor=flavor,
        image=image,
        decision_uuid=None if before is None else before.decision_uuid,
        created_at=created_at,
        updated_at=moment(instance.updated_at) or created_at,
    )


def unlike(before: Kept | None, record: NewRecord) -> tuple[str, ...]:
    """Return the fields in which a record differs; all of them, of a new one."""
    if before is None:
        return FIELDS
    kept = before[1:11]
    if kept == record.values:
        return ()
    return tuple(
        name for name, old, new in zip(FIELDS, kept, record.values, strict=True) if old != new
    )


def moment(text: str | None) -> datetime | None:
    """Return the time, without a fraction of a second, that a database wrote in ISO 8601."""
    return None if text is None else datetime.fromisoformat(text[:19])


_NOUN = "instances"
#: So many instances are read and written at once.
CHUNK = 1000
_TRIES = 3
#: So many flavors are remembered.
_MOST_FLAVORS = 10_000
#: How far a round looks back beyond the last one: the clocks of hosts, which date the rows, may be
#: some minutes slow.
OVERLAP = timedelta(seconds=300)
#: Nova makes the record of an instance in its cell only after it was scheduled: what was claimed
#: here stays so long, even if no cell knows of it.
GRACE = timedelta(seconds=600)


@dataclass(slots=True)
class _Looked:
    """What nova's cells said of some instances."""

    living: dict[str, NovaInstance] = field(default_factory=dict)
    #: Those that a cell knows as deleted, or hidden.
    ended: set[str] = field(default_factory=set)
    #: Instances that live in a cell that nova's API does not map them to.
    strays: dict[str, NovaInstance] = field(default_factory=dict)
    #: The uuid of the cell that nova's API maps each instance to.
    mapped: Mapping[str, str] = field(default_factory=dict)
    #: Those that the cell of their mapping has deleted.
    deleted: set[str] = field(default_factory=set)

    def take(self, cell: FollowedCell, found: Iterable[NovaInstance]) -> None:
        for one in found:
            here = self.mapped.get(one.uuid, cell.uuid) == cell.uuid
            if not one.lives:
                self.ended.add(one.uuid)
                if here and one.deleted:
                    self.deleted.add(one.uuid)
            elif here:
                self.living.setdefault(one.uuid, one)
            else:
                self.strays.setdefault(one.uuid, one)

    def take_strays(self, away: Collection[str]) -> None:
        """Accept strays that the mapped cell does not have, unless that cell is away.

        Between cells, nova makes the copy that counts visible after it has changed the mapping.
        """
        for uuid, one in self.strays.items():
            if self.mapped[uuid] not in away and uuid not in self.deleted:
                self.living.setdefault(uuid, one)


class InstanceUpkeep:
    """Keeps instances in step; one for each process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._flavors = Flavors()
        # Flavors as they are recorded here, by their digests.
        self._recorded: dict[str, KeptFlavor] = {}

    def count(self) -> int:
        """Return how many instances live in all cells that answer."""
        total = 0

        def count(cell: FollowedCell) -> None:
            nonlocal total
            with cell.database.read() as connection:
                total += nova_instances.count(connection)

        self._cells.each(count)
        return total

    def everything(
        self, account: Account, number: int, done: Callable[[int], None], *, dry: bool = False
    ) -> None:
        """Compare all instances, about so many, and record them as nova has them.

        They are compared by ranges of uuids, so that no more are in memory at once.
        """
        started = self._cells.clock()
        for first, last in nova_instances.ranges(number // CHUNK + 1):
            with self._database.read() as connection:
                before = {one.uuid: one for one in instances.between(connection, first, last)}
            living = self._between(first, last, account)
            groups = self._groups(living)
            wanted = self._records(living.values(), before, groups, account)
            account.note_read(_NOUN, len(wanted))
            self._add([one for one in wanted if one.uuid not in before], account, dry=dry)
            right = {one.uuid for one in wanted if not unlike(before.get(one.uuid), one)}
            self.settle(before.keys() - right, account, flavors=True, dry=dry)
            done(len(wanted))
        if not dry:
            for cell in self._cells.every:
                cell.instances_read = started

    def _add(self, records: Sequence[NewRecord], account: Account, *, dry: bool) -> None:
        """Record instances that are new, in those of their groups that are still there."""
        for one in records:
            account.differs(_NOUN, one.uuid, (), new=True)
        if records and not dry:
            texts, rows = _flavors_of(records), [one.row() for one in records]
            groups = {row["server_group"] for row in rows} - {None}

            def add(connection: Connection) -> None:
                # They were read before: one that went meanwhile would still have members.
                server_groups.lock_many(connection, groups)
                gone = groups - server_groups.existing(connection, groups)
                flavors_module.keep_embedded(connection, texts)
                instances.add(connection, [_outside(row, gone) for row in rows])

            self._database.write(add)

    def follow(self, cell: FollowedCell, account: Account) -> None:
        """Record those instances of a cell that were written since the last reading of it."""
        now = self._cells.clock()
        since = (cell.instances_read or now) - OVERLAP
        with cell.database.read() as connection:
            moving = nova_instances.moved(connection, since)
        for chunk in batches(cell.instances.to_read(moving, settling=False), CHUNK):
            self.settle(chunk, account, home=cell)
            cell.instances.note(moving, chunk, now)
            if cell is not self._cells.cell0:
                account.note_read(_NOUN, len(chunk))
        cell.instances.keep(moving)
        cell.instances_read = now

    def follow_cell0(self, account: Account) -> None:
        """Forget the instances that were buried in cell0 since the last reading of it."""
        if self._cells.cell0 is not None:
            with suppress(NovaAway):
                self.follow(self._cells.cell0, account)

    def settle(
        self,
        uuids: Collection[str],
        account: Account,
        *,
        home: FollowedCell | None = None,
        flavors: bool = False,
        dry: bool = False,
    ) -> frozenset[str]:
        """Compare instances, and record those that differ as nova has them.

        ``home`` is the cell that is asked first. With ``flavors`` these are read, even where
        what is recorded is of the same ``instance_type_id``: nova changes that with the flavor.
        Returns the uuids of those that live in a cell.
        """
        if not uuids:
            return frozenset()
        for _ in range(_TRIES):
            with self._database.read() as connection:
                before = {one.uuid: one for one in instances.kept(connection, uuids)}
            looked = self._look(uuids, {} if flavors else before, account, home)
            groups = self._groups(looked.living)
            wanted = self._records(looked.living.values(), before, groups, account)
            differing = [one for one in wanted if unlike(before.get(one.uuid), one)]
            lost = [one for uuid, one in before.items() if uuid not in looked.living]
            gone = self._gone(lost, looked)
            if dry or self._write(before, differing, gone):
                break
        for one in differing:
            known = before.get(one.uuid)
            account.differs(_NOUN, one.uuid, unlike(known, one), new=known is None)
        for uuid in gone:
            account.gone(_NOUN, uuid)
        return frozenset(looked.living)

    def _look(
        self,
        uuids: Collection[str],
        before: Mapping[str, Kept],
        account: Account,
        home: FollowedCell | None,
    ) -> _Looked:
        """Ask cells for instances: the first, and the others for what does not live there."""
        looked = _Looked(mapped=self._mapped(uuids))
        asked: list[FollowedCell] = []

        def read(cell: FollowedCell) -> None:
            missing = [uuid for uuid in uuids if uuid not in looked.living]
            if missing and cell not in asked:
                asked.append(cell)
                with cell.database.read() as connection:
                    found = nova_instances.by_uuids(connection, missing)
                    lacking = [one for one in found if self._lacks_flavor(one, before)]
                    read = nova_instances.with_flavors(connection, lacking)
                    self._flavors.learn(connection, read)
                looked.take(cell, (*read, *found))

        if home is not None and home in self._cells.every:
            read(home)
        self._cells.each(read, account=account)
        looked.take_strays({cell.uuid for cell in self._cells.away})
        return looked

    def _mapped(self, uuids: Collection[str]) -> Mapping[str, str]:
        """Return the cell that each instance is mapped to; empty if there is one cell only."""
        if len(self._cells.every) > 1 and uuids:
            with suppress(NovaAway), self._cells.read_api() as connection:
                return nova_instances.mapped_to(connection, uuids)
        return {}

    def _lacks_flavor(self, instance: NovaInstance, before: Mapping[str, Kept]) -> bool:
        known = before.get(instance.uuid)
        return instance.lives and self._recorded_flavor(instance, known) is None

    def _recorded_flavor(self, instance: NovaInstance, known: Kept | None) -> KeptFlavor | None:
        """Return the flavor that is recorded, where it is the one that the instance still has."""
        found = self._recorded.get(known.flavor_digest) if known and known.flavor_digest else None
        number = instance.instance_type_id
        return found if found and number is not None and found.number == number else None

    def _between(self, first: str, last: str | None, account: Account) -> dict[str, NovaInstance]:
        """Return the instances that live in a range of uuids, whichever cell they are in.

        Of an instance that lives in several cells, the cell that nova maps it to counts.
        """
        by_cell: dict[str, list[NovaInstance]] = {}

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                by_cell[cell.uuid] = nova_instances.between(connection, first, last)
                self._flavors.learn(connection, by_cell[cell.uuid])

        self._cells.each(read, account=account)
        times = Counter(row.uuid for rows in by_cell.values() for row in rows)
        looked = _Looked(mapped=self._mapped(times))
        for cell in self._cells.every:
            looked.take(cell, by_cell.get(cell.uuid, ()))
        astray = looked.strays.keys() - looked.living.keys()
        living = looked.living | self._look(astray, {}, account, None).living
        for uuid in (uuid for uuid, number in times.items() if number > 1):
            reason = "several cells have it; the one that nova maps it to counts"
            account.misfit(f"instance {uuid}", reason)
        return living

    def _groups(self, uuids: Collection[str]) -> Mapping[str, str] | None:
        """Return the groups recorded here that instances are in; None where nova is away."""
        if not uuids:
            return {}
        try:
            with self._cells.read_api() as connection:
                found = nova_groups.groups_of(connection, uuids)
        except NovaAway:
            return None
        if not found:
            return {}
        with self._database.read() as connection:
            known = server_groups.existing(connection, set(found.values()))
        return {uuid: group for uuid, group in found.items() if group in known}

    def _records(
        self,
        found: Iterable[NovaInstance],
        before: Mapping[str, Kept],
        groups: Mapping[str, str] | None,
        account: Account,
    ) -> list[NewRecord]:
        """Return what is to be recorded of instances; ``groups`` are kept where it is None."""
        now = self._cells.clock()
        if len(self._recorded) >= _MOST_FLAVORS:
            self._recorded.clear()
        records = []
        for instance in found:
            known = before.get(instance.uuid)
            flavor = None if instance.flavor else self._recorded_flavor(instance, known)
            flavor = flavor or self._flavors.of(instance)
            self._recorded[flavor.digest] = flavor
            if groups is not None:
                group = groups.get(instance.uuid)
            else:
                group = known.server_group if known else None
            record = record_of(
                self._named(instance, account),
                known,
                flavor=flavor,
                group=group,
                now=now,
                is_pending=self._is_pending,
            )
            if not self._cells.is_left_out(f"instance {record.uuid}", record.texts, account):
                records.append(record)
        return records

    def _named(self, instance: NovaInstance, account: Account) -> NovaInstance:
        name = instance.display_name or ""
        shown = self._cells.shown(name, f"instance {instance.uuid}", "name", account)
        return instance if shown == name else instance._replace(display_name=shown)

    def _is_pending(self, before: Kept) -> bool:
        """Return whether a record is of a claim that nova may not know yet."""
        made = moment(before.created_at)
        if before.decision_uuid is None or made is None:
            return False
        return made >= self._cells.clock() - GRACE

    def _gone(self, records: Sequence[Kept], looked: _Looked) -> frozenset[str]:
        """Return the instances to forget, of these records which no cell has as living."""
        ended = {one.uuid for one in records if one.uuid in looked.ended}
        if self._cells.away:
            return frozenset(ended)
        rest = [one for one in records if one.uuid not in ended]
        pending = {one.uuid for one in rest if self._is_pending(one)}
        if pending:
            with suppress(NovaAway), self._cells.read_api() as connection:
                pending -= nova_instances.given_up(connection, pending)
        return frozenset(ended | {one.uuid for one in rest} - pending)

    def _write(
        self, before: Mapping[str, Kept], differing: Sequence[NewRecord], gone: Collection[str]
    ) -> bool:
        """Write what differs; return whether all of it still stood as it was read."""
        uuids = [*(one.uuid for one in differing), *gone]
        if not uuids:
            return True
        groups = {one.values[-1] for one in differing} - {None}
        texts = _flavors_of(differing)
        new = [one.row() for one in differing if one.uuid not in before]
        known = [one for one in differing if one.uuid in before]
        fields = {name for one in known for name in unlike(before[one.uuid], one)}
        if any(before[one.uuid].has_own_flavor for one in known):
            fields.add("flavor")

        def write(connection: Connection) -> bool:
            server_groups.lock_many(connection, groups)
            locked = instances.locked(connection, uuids)
            if locked != {uuid: before[uuid].place_and_state for uuid in uuids if uuid in before}:
                return False
            if groups != server_groups.existing(connection, groups):
                return False
            flavors_module.keep_embedded(connection, texts)
            instances.change(connection, new)
            instances.change(connection, [one.changed(fields) for one in known])
            instances.remove(connection, gone)
            return True

        return self._database.write(write)

    def take(self, announced: Sequence[Instance]) -> None:
        """Record instances as a host announced them, where no database says how they are."""
        now = self._cells.clock()
        self._database.write(lambda connection: instances.record(connection, announced, now))

    def forget(self, host: str, uuid: str) -> None:
        """Forget an instance that left a host, where no database says where it is."""

        def write(connection: Connection) -> None:
            found = instances.locked(connection, [uuid])
            instances.remove(connection, [one for one in found if found[one].host == host])

        self._database.write(write)

    def recorded_on(self, host: str) -> frozenset[str]:
        """Return the uuids of the instances that are recorded on a host."""
        with self._database.read() as connection:
            return instances.uuids_on_host(connection, host)


def _outside(row: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return a row of an instance that is in none of these groups."""
    return {**row, "server_group": None} if row["server_group"] in gone else row


def _flavors_of(records: Iterable[NewRecord]) -> dict[str, str]:
    """Return the texts of the flavors of records, by their digests."""
    return {one.flavor.digest: one.flavor.text for one in records}
