"""Keeps the server groups recorded here as nova's API database has them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import POLICIES, HostAggregate, ServerGroup
from placement_sched.nova.databases import aggregates as nova_aggregates
from placement_sched.nova.databases import server_groups as nova_groups
from placement_sched.nova.sync.cells import NovaCells
from placement_sched.nova.sync.findings import Account
from placement_sched.schemas.formats import DocumentError
from placement_sched.store.compute import host_aggregates, server_groups

_NOUN = "server groups"
_FIELDS = ("name", "policy", "rules", "project_id", "user_id")


class GroupUpkeep:
    """Keeps server groups in step; one for each process.

    Their members are instances, whose records name the group.
    """

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._seen: object = None
        self._newest_member: int | None = None

    def everything(self, account: Account, *, dry: bool = False) -> None:
        """Compare all groups, and record them as nova has them; raises :class:`NovaAway`."""
        with self._cells.read_api() as connection:
            seen = nova_groups.fingerprint(connection)
        self._settle(account, dry=dry)
        if not dry:
            self._seen = seen

    def follow(self, account: Account) -> tuple[str, ...]:
        """Do so where nova's tables of groups have changed; raises :class:`NovaAway`.

        Returns the uuids of the instances that joined a group since the last time.
        """
        with self._cells.read_api() as connection:
            seen = nova_groups.fingerprint(connection)
            newest = nova_groups.newest_member(connection)
            before = newest if self._newest_member is None else self._newest_member
            joined = nova_groups.members_since(connection, before) if newest > before else ()
        if seen != self._seen:
            self._settle(account, dry=False)
            self._seen = seen
        self._newest_member = newest
        return joined

    def _settle(self, account: Account, *, dry: bool) -> None:
        with self._database.read() as connection:
            before = {one.uuid or "": one for one in server_groups.every(connection)}
        with self._cells.read_api() as connection:
            found = nova_groups.groups(connection)
        theirs = self._fitting(found, account)
        differing = {uuid: one for uuid, one in theirs.items() if _unlike(before.get(uuid), one)}
        gone = before.keys() - found.keys()
        account.note_read(_NOUN, len(found))
        for uuid, one in differing.items():
            fields = _unlike(before.get(uuid), one)
            account.differs(_NOUN, one.name or uuid, fields, new=uuid not in before)
        for uuid in gone:
            account.gone(_NOUN, before[uuid].name or uuid)
        if dry or not (differing or gone):
            return
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            server_groups.lock_many(connection, [*gone, *differing])
            for uuid in sorted(gone):
                server_groups.remove(connection, uuid)
            server_groups.put(connection, list(differing.values()), now)

        self._database.write(write)

    def _fitting(
        self, found: Mapping[str, ServerGroup | DocumentError], account: Account
    ) -> dict[str, ServerGroup]:
        fitting = {}
        for uuid, one in found.items():
            if isinstance(one, DocumentError):
                account.misfit(f"server group {uuid}", one.at_path().detail)
            elif one.policy not in POLICIES:
                account.misfit(
                    f"server group {one.name} ({uuid})",
                    f"its policy {one.policy!r} is not one of {', '.join(POLICIES)}",
                )
            else:
                place = f"server group {uuid}"
                name = self._cells.shown(one.name or "", place, "name", account)
                texts = {"project_id": one.project_id, "user_id": one.user_id}
                if self._cells.is_left_out(place, texts, account):
                    continue
                fitting[uuid] = replace(one, name=name or one.name)
        return fitting


def _unlike(before: ServerGroup | None, one: ServerGroup) -> tuple[str, ...]:
    """Return the fields in which a group differs; all of them, of a new one."""
    return tuple(
        name for name in _FIELDS if before is None or getattr(before, name) != getattr(one, name)
    )


_HOST_AGGREGATES_NOUN = "host aggregates"
_HOST_AGGREGATES_FIELDS = ("uuid", "name", "hosts", "metadata")
_TRIES = 3
#: Characters of a name with placeholders, beside the number that makes it unique.
_LONGEST_SHOWN = 240


class AggregateUpkeep:
    """Keeps aggregates in step; one for each process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._seen: nova_aggregates.TablesFingerprint | None = None

    def everything(self, account: Account, *, dry: bool = False) -> None:
        """Compare all aggregates, and record them as nova has them; raises :class:`NovaAway`."""
        with self._cells.read_api() as connection:
            seen = nova_aggregates.fingerprint(connection)
        self.settle(account, dry=dry)
        if not dry:
            self._seen = seen

    def follow(self, account: Account) -> None:
        """Do so where nova's tables of aggregates have changed; raises :class:`NovaAway`."""
        with self._cells.read_api() as connection:
            seen = nova_aggregates.fingerprint(connection)
        if seen != self._seen:
            self.settle(account)
            self._seen = seen

    def settle(
        self, account: Account, numbers: Collection[int] | None = None, *, dry: bool = False
    ) -> None:
        """Compare aggregates of these numbers, or all, and record those that differ.

        What is recorded is read before nova is, and written only where it still stands so. Raises
        :class:`NovaAway`.
        """
        for _ in range(_TRIES):
            with self._database.read() as connection:
                before = _recorded(connection, numbers)
            with self._cells.read_api() as connection:
                found = nova_aggregates.host_aggregates(connection, numbers)
            theirs = {one.id: one for one in map(partial(self._storable, account), found)}
            unfit = {number for number, one in theirs.items() if self._is_unfit(one, account)}
            theirs = {number: one for number, one in theirs.items() if number not in unfit}
            differing = {
                number: one
                for number, one in theirs.items()
                if _host_aggregates_unlike(before.get(number), one)
            }
            gone = before.keys() - theirs.keys() - unfit
            if dry or not (differing or gone) or self._write(before, differing, gone):
                break
        account.note_read(_HOST_AGGREGATES_NOUN, len(theirs))
        for number, one in differing.items():
            fields = _host_aggregates_unlike(before.get(number), one)
            account.differs(_HOST_AGGREGATES_NOUN, one.name, fields, new=number not in before)
        for number in gone:
            account.gone(_HOST_AGGREGATES_NOUN, before[number].name)

    def _storable(self, account: Account, one: HostAggregate) -> HostAggregate:
        """Return an aggregate without what cannot be stored of its name and hosts."""
        place = f"aggregate {one.uuid}"
        name = self._cells.shown(one.name, place, "name", account)
        if name != one.name:  # names are unique, also those with placeholders
            name = f"{name[:_LONGEST_SHOWN]} ({one.id})"
        hosts = frozenset(
            host
            for host in one.hosts
            if not self._cells.is_left_out(place, {"host": host}, account)
        )
        return replace(one, name=name, hosts=hosts)

    def _is_unfit(self, one: HostAggregate, account: Account) -> bool:
        """Return whether metadata cannot be stored: the aggregate stays as it was recorded."""
        texts = {f"metadata {key!r}": f"{key}{value}" for key, value in one.metadata.items()}
        return self._cells.is_left_out(f"aggregate {one.name} ({one.uuid})", texts, account)

    def _write(
        self,
        before: Mapping[int, HostAggregate],
        differing: Mapping[int, HostAggregate],
        gone: Collection[int],
    ) -> bool:
        """Write what differs; return whether all of it still stood as it was read."""
        now = self._cells.clock()

        def write(connection: Connection) -> bool:
            numbers = {*differing, *gone}
            # From here on no other process changes an aggregate until this transaction ends.
            host_aggregates.note_change(connection)
            here = _recorded(connection, None)
            if any(_moved(before.get(number), here.get(number)) for number in numbers):
                return False
            # Others may have names or uuids that these bring: they will be compared next.
            host_aggregates.replace(connection, here, list(differing.values()), gone, now)
            return True

        return self._database.write(write)


def _recorded(connection: Connection, numbers: Collection[int] | None) -> dict[int, HostAggregate]:
    every = host_aggregates.snapshot(connection)
    return {one.id: one for one in every if numbers is None or one.id in numbers}


def _host_aggregates_unlike(before: HostAggregate | None, one: HostAggregate) -> tuple[str, ...]:
    """Return the fields in which an aggregate differs; all of them, of a new one."""
    return tuple(
        name
        for name in _HOST_AGGREGATES_FIELDS
        if before is None or getattr(before, name) != getattr(one, name)
    )


def _moved(before: HostAggregate | None, here: HostAggregate | None) -> bool:
    if before is None or here is None:
        return before is not here
    return bool(_host_aggregates_unlike(before, here))
